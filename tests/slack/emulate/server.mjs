// Starts the Slack emulator on the port given. Two gaps of it are closed here:
// it reads arguments from POST bodies only, while the Python SDK also sends GET and query strings, as Slack allows;
// and it offers no way to subscribe an address to events, so POST /_test/subscribe {"url": …} does.
import { readFile, readdir } from 'node:fs/promises'
import { createEmulator } from 'emulate'

const bundle = new URL('./node_modules/emulate/dist/', import.meta.url)
const { port, secret } = JSON.parse(process.argv[2])

async function slackPlugin() {
  for (const name of (await readdir(bundle)).filter((name) => name.startsWith('dist-') && name.endsWith('.js'))) {
    const module = new URL(name, bundle)
    if (/\bslackPlugin\b/.test(await readFile(module, 'utf8'))) {
      const { slackPlugin: plugin } = await import(module)
      if (plugin) return plugin
    }
  }
  throw new Error('this version of the emulator holds no Slack plugin; is it the pinned one?')
}

function acceptQueryStrings(app) {
  app.use('*', async (context, next) => {
    const request = context.req.raw
    const url = new URL(request.url)
    if (!url.pathname.startsWith('/api/') || (request.method === 'POST' && !url.search)) return next()
    const form = new URLSearchParams(url.search)
    if (request.method === 'POST') {
      new URLSearchParams(await request.text()).forEach((value, key) => form.set(key, value))
    }
    const headers = { 'content-type': 'application/x-www-form-urlencoded' }
    const authorization = request.headers.get('authorization')
    if (authorization) headers.authorization = authorization
    return app.request(url.origin + url.pathname, { method: 'POST', headers, body: form.toString() })
  })
}

const plugin = await slackPlugin()
const register = plugin.register
plugin.register = function (app, store, webhooks, ...rest) {
  acceptQueryStrings(app)
  app.post('/_test/subscribe', async (context) => {
    const { url } = await context.req.json()
    return context.json(webhooks.register({ url, events: ['*'], active: true, owner: 'slack' }))
  })
  return register.call(this, app, store, webhooks, ...rest)
}

const scopes = (
  'chat:write channels:read channels:history channels:join groups:read groups:history users:read users:read.email ' +
  'files:read files:write'
).split(' ')
const app = { app_id: 'A0FIRSTFAULT', bot_id: 'B0FIRSTFAULT', bot_user_id: 'U0FIRSTFAULT' }
const client = { client_id: '1.1', client_secret: 'test', name: 'firstfault', bot_name: 'firstfault' }
await createEmulator({
  service: 'slack',
  port,
  seed: {
    slack: {
      team: { name: 'ML Infra', domain: 'ml-infra' },
      users: [{ name: 'alice', real_name: 'Alice', email: 'alice@example.test' }],
      channels: [{ name: 'train-failures' }, { name: 'secret-project', is_private: true }],
      oauth_apps: [{ ...app, ...client, redirect_uris: ['http://127.0.0.1/unused'], scopes }],
      tokens: [
        { ...app, token: 'xoxb-test-not-a-token', type: 'bot', user_id: app.bot_user_id, scopes },
        { token: 'xoxp-test-not-a-token', type: 'user', user: 'alice', scopes },
      ],
      strict_scopes: true,
      signing_secret: secret,
    },
  },
})
