"""The commands and their options. Each command's work is imported only when it is called: `diagnose` starts fast."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(
    name="firstfault",
    help="Name the rank that failed first in a distributed training job, why, and how to fix it.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

_Config = Annotated[
    Path | None, typer.Option("--config", metavar="FILE", help="Settings as TOML; the environment wins over it.")
]


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"firstfault {version('firstfault')}")
        raise typer.Exit


@app.callback()
def _options(
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and leave.")
    ] = False,
) -> None:
    pass


def _path(text: str) -> Path:
    """A path as it was given; "" would silently be the current folder."""
    if not text:
        raise typer.BadParameter("a path is empty; is a shell variable unset?")
    return Path(text)


@app.command()
def diagnose(
    paths: Annotated[
        list[Path],
        typer.Argument(metavar="PATH", help="Log files, folders, or - for standard input.", parser=_path),
    ],
    as_json: Annotated[bool, typer.Option("--json", help="Print the diagnosis as one JSON document.")] = False,
) -> None:
    """Read the logs of one job and say what failed first.

    Needs no service, database or network. Exit status: 0 a failure was diagnosed, 3 the job did not fail, 2 the
    command line or a path is wrong.
    """
    from bot.cli.diagnose import run

    raise typer.Exit(run(paths, as_json=as_json))


@app.command()
def ask(
    path: Annotated[
        Path, typer.Argument(metavar="PATH", help="A folder with the logs of one job, or one log.", parser=_path)
    ],
    question: Annotated[list[str], typer.Argument(help="The question, in your own words.")],
) -> None:
    """Ask further about a failed job: "why rank 3", "safe to restart?", "last 20 lines of rank 3".

    The answer cites file and line. Exit status: 0 it was answered, 1 the question was not understood, 2 the path is wrong.
    """
    from bot.cli.ask import run

    raise typer.Exit(run(path, question))


class _Depth(StrEnum):
    SHORT = "short"
    ONCALL = "oncall"
    ENGINEER = "engineer"


@app.command(context_settings={"ignore_unknown_options": True})  # "-9" is an exit code, not an option
def explain(
    text: Annotated[
        list[str], typer.Argument(metavar="ID|TEXT", help="An id, a number, lines of a log, or - for standard input.")
    ],
    depth: Annotated[
        _Depth, typer.Option("--depth", help="For whoever asks, for the one on call, or for the engineer.")
    ] = _Depth.ONCALL,
) -> None:
    """Say what a message means: an entry's or a cause's id, "xid 79", "cuda 700", or pasted lines of a log.

    Exit status: 0 it is known, 1 it is not.
    """
    from bot.cli.explain import Depth, run

    raise typer.Exit(run(text, Depth(depth)))


catalogue = typer.Typer(help="All failure messages that are known.", invoke_without_command=True)
app.add_typer(catalogue, name="catalogue")


@catalogue.callback()
def _catalogue(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        catalogue_list()


@catalogue.command("list")
def catalogue_list(
    layer: Annotated[
        str | None, typer.Argument(help="One layer, such as nccl; without it, all with their counts.")
    ] = None,
) -> None:
    """List the layers with their counts, or the entries of one."""
    from bot.cli.catalogue import list_entries

    raise typer.Exit(list_entries(layer))


@catalogue.command("search")
def catalogue_search(words: Annotated[list[str], typer.Argument(help="Words of the message or its meaning.")]) -> None:
    """Find entries by words. Exit status 1: there is none."""
    from bot.cli.catalogue import search

    raise typer.Exit(search(words))


class _Format(StrEnum):
    PROMETHEUS = "prometheus"
    MTAIL = "mtail"
    LOKI = "loki"
    GREP = "grep"


@catalogue.command("export")
def catalogue_export(
    form: Annotated[_Format, typer.Option("--format", help="For whom: alert rules, mtail's program, or patterns.")],
    ids: Annotated[list[str] | None, typer.Argument(metavar="ID", help="Entries, whatever their role.")] = None,
    layer: Annotated[str | None, typer.Option("--layer", help="What can begin a failure, of one layer.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="What can begin a failure, of all layers.")] = False,
    selector: Annotated[str, typer.Option("--selector", help="Loki: which streams to search.")] = '{job=~".+"}',
) -> None:
    """Print alert rules or search patterns for entries; comments say what they need."""
    from bot.cli.export import Format, run

    raise typer.Exit(run(ids or [], Format(form), layer=layer, everything=everything, selector=selector))


@app.command()
def serve(
    config: _Config = None,
) -> None:
    """Run the service: take reports from clusters, diagnose, post to Slack."""
    from bot.cli.serve import run

    raise typer.Exit(run(config))


routes = typer.Typer(no_args_is_help=True, help="Which channels failures are told in.")
app.add_typer(routes, name="route")


@routes.command("test")
def route_test(
    paths: Annotated[
        list[Path],
        typer.Argument(metavar="FILE", help="A job.json, a diagnosis as JSON, or a case's folder.", parser=_path),
    ],
    config: _Config = None,
    at: Annotated[
        datetime | None,
        typer.Option("--at", formats=["%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M%z"], help="When; quiet hours depend on it."),
    ] = None,
    incidents: Annotated[int, typer.Option("--incidents", min=1, help="How many jobs failed alike.")] = 1,
) -> None:
    """Say where a failure would be told, which rule decides, and why the others do not. Nothing is sent.

    Exit status: 0 there is an answer, 2 a setting or a file is wrong.
    """
    from bot.cli.route import run

    raise typer.Exit(run(paths, config, at, incidents))


@app.command()
def doctor(
    config: _Config = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the findings as one JSON document.")] = False,
) -> None:
    """Check settings, Slack, database and disk, and say for each fault what to do. The service may run meanwhile.

    Exit status: 0 nothing fails, 1 something does.
    """
    from bot.cli.doctor import run

    raise typer.Exit(run(config, as_json=as_json))


clusters = typer.Typer(no_args_is_help=True, help="Who may report.")
app.add_typer(clusters, name="cluster")


@clusters.command("add")
def cluster_add(
    name: Annotated[str, typer.Argument(help="A name for people, shown in messages.")],
    config: _Config = None,
    renew: Annotated[bool, typer.Option("--renew", help="Give a cluster that exists a new token.")] = False,
) -> None:
    """Let a cluster report: print the token for its hooks. The token is shown this once."""
    from bot.cli.cluster import add

    raise typer.Exit(add(name, config, renew=renew))


@clusters.command("list")
def cluster_list(
    config: _Config = None,
) -> None:
    """List the clusters, whether each may report, and what they have reported."""
    from bot.cli.cluster import show

    raise typer.Exit(show(config))


@clusters.command("remove")
def cluster_remove(
    name: Annotated[str, typer.Argument(help="The cluster's name.")],
    config: _Config = None,
) -> None:
    """Take a cluster's token away at once; its incidents stay."""
    from bot.cli.cluster import remove

    raise typer.Exit(remove(name, config))


cases = typer.Typer(no_args_is_help=True, help="Incidents as cases with known truth.")
app.add_typer(cases, name="case")


@cases.command("export")
def case_export(
    named: Annotated[str, typer.Argument(metavar="ID", help="An incident's id, or a job's.")],
    into: Annotated[Path | None, typer.Option("--into", metavar="FOLDER", help="Where to; made anew.")] = None,
    config: _Config = None,
) -> None:
    """Write an incident as a case folder with the site's names taken out, and with the corrections people made.

    Exit status: 0 written, 1 there is no such incident or it cannot be written, 2 a setting is wrong.
    """
    from bot.cli.case import export

    raise typer.Exit(export(named, into, config))


@app.command()
def demo() -> None:
    """Replay a real failed job of 8 ranks through hook and service, with this terminal in place of Slack."""
    from bot.cli.demo import run

    raise typer.Exit(run())


@app.command()
def digest(
    since: Annotated[str, typer.Option("--since", metavar="TIME", help="Days or weeks, such as 7d or 2w.")] = "7d",
    channel: Annotated[
        str | None, typer.Option("--channel", metavar="ID", help="Only what was told in this channel.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the numbers as one JSON document.")] = False,
    config: _Config = None,
) -> None:
    """Say what failed lately, what it cost, and what to do first; from the service's database, which may be in use."""
    from bot.cli.digest import run

    raise typer.Exit(run(since, channel=channel, as_json=as_json, config=config))


hooks = typer.Typer(no_args_is_help=True, help="What reports from a cluster.")
installs = typer.Typer(no_args_is_help=True, help="Put the hook where the scheduler finds it.")
hooks.add_typer(installs, name="install")
app.add_typer(hooks, name="hook")

_Bot = Annotated[
    str | None,
    typer.Option(
        "--bot",
        metavar="URL",
        help="The service, such as https://firstfault.example.com; else what hook.conf says, yours or the site's.",
    ),
]
_TokenFile = Annotated[
    Path | None,
    typer.Option(
        "--token-file", metavar="FILE", help="The token that `firstfault cluster add` printed; else as with --bot."
    ),
]


@installs.command("slurm")
def hook_install_slurm(
    bot: _Bot = None,
    token_file: _TokenFile = None,
    apply: Annotated[bool, typer.Option("--apply", help="Do it; without this it is only shown.")] = False,
    check: Annotated[bool, typer.Option("--check", help="Say whether this machine is ready to report.")] = False,
    uninstall: Annotated[bool, typer.Option("--uninstall", help="Take away what --apply wrote.")] = False,
    slurm_conf: Annotated[
        Path | None,
        typer.Option("--slurm-conf", metavar="FILE", help="Else what SLURM_CONF names, or /etc/slurm/slurm.conf."),
    ] = None,
    root: Annotated[
        Path, typer.Option("--root", metavar="FOLDER", help="A staged image instead of this machine.", hidden=True)
    ] = Path("/"),
    controller: Annotated[
        bool | None,
        typer.Option("--controller/--no-controller", help="Whether slurmctld runs here; else slurm.conf tells."),
    ] = None,
) -> None:
    """Install the hook on this machine: one file, one file of settings, and lines in slurm.conf.

    Exit status: 0 done, 1 --check found something wrong, 2 something has to be changed first.
    """
    from bot.cli.hook import run

    if apply + check + uninstall > 1:
        raise typer.BadParameter("--apply, --check and --uninstall exclude each other")
    deed = "apply" if apply else "check" if check else "uninstall" if uninstall else "show"
    raise typer.Exit(
        run(bot=bot, token_file=token_file, slurm_conf=slurm_conf, root=root, controller=controller, deed=deed)
    )


@app.command()
def watch(
    job: Annotated[str, typer.Argument(metavar="JOBID", help="A Slurm job of yours, waiting or running.")],
    bot: _Bot = None,
    token_file: _TokenFile = None,
) -> None:
    """Wait for the end of your own Slurm job and report it if it failed, where the site has no hook.

    Exit status: 0 it did not fail, 1 it did, or it is not known.
    """
    from bot.cli.watch import run

    raise typer.Exit(run(job, bot, token_file))


@app.command()
def report(
    logs: Annotated[Path, typer.Option("--logs", metavar="FOLDER", help="The logs of the job.", parser=_path)],
    job: Annotated[
        Path | None, typer.Option("--job", metavar="FILE", help="What the scheduler knows, as JSON: docs/reporting.md.")
    ] = None,
    bot: _Bot = None,
    token_file: _TokenFile = None,
) -> None:
    """Report a failed job of any scheduler by hand or from a script; its logs are cut and redacted here first.

    Exit status: 0 reported, 1 it could not be sent, 2 a path or an option is wrong.
    """
    from bot.cli.report import run

    raise typer.Exit(run(logs, job, bot, token_file))
