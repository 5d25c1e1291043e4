#!/bin/sh
# Firstfault's Slurm hook: Epilog, EpilogSlurmctld and JobComp script in one file, with nothing to install beside it.
#
# The shell reads this part. Slurm gives a hook no PATH, waits for it, kills its process group and drains the node when
# it fails; so the hook leaves into a session of its own before it even looks for an interpreter, and always answers 0.
# setsid has run before the substitution below ends, so nothing that follows is in Slurm's process group any more.
PATH=${PATH:-/usr/sbin:/usr/bin:/sbin:/bin}
export PATH
hook='' run=exec
if [ $# -eq 0 ] && [ -n "${SLURM_SCRIPT_CONTEXT-}${JOBSTATE-}" ]; then
    hook=yes
    trap 'exit 0' EXIT HUP INT TERM PIPE
    exec </dev/null >/dev/null 2>&1
    [ -n "${FIRSTFAULT_BEGAN-}" ] || FIRSTFAULT_BEGAN=$(date +%s.%N)
    export FIRSTFAULT_BEGAN
    if [ -z "${FIRSTFAULT_DETACHED-}" ] && command -v setsid; then
        FIRSTFAULT_DETACHED=yes
        export FIRSTFAULT_DETACHED
        true "$(setsid /bin/sh -c '/bin/sh "$0" >/dev/null &' "$0")"
        exit 0
    fi
    [ "${FIRSTFAULT_DETACHED-}" = yes ] || run=''
    if [ -z "${FIRSTFAULT_DETACHED-}" ]; then  # only Python can leave then, and an interpreter may hang: 0.9 s are its time
        { sleep 0.9 || sleep 1; } &
        alarm=$!
        { FIRSTFAULT_DETACHED=no /bin/sh "$0"; kill $alarm; } &
        wait $alarm
        exit 0
    fi
fi
# A small Python lacks modules, which it would notice when nobody hears it any more. To leave, it needs none of them.
modules='argparse, base64, bisect, collections, configparser, contextlib, email.utils, encodings.idna, errno, fcntl, functools,
gzip, hashlib, http.client, itertools, json, math, os, pwd, random, re, resource, select, shlex, signal, socket, ssl, stat,
subprocess, syslog, tarfile, threading, time, _strptime, typing, urllib.parse'
[ -n "$run" ] || modules=os
lacking=''
for python in /etc/firstfault/python3 /usr/bin/python3 /usr/libexec/platform-python /usr/local/bin/python3 python3; do
    command -v "$python" >/dev/null 2>&1 || continue
    if lacks=$("$python" -I -c "import sys
sys.version_info < (3, 6) and sys.exit('it is too old')
try:
    import $(echo $modules)
except ImportError as why:
    sys.exit(str(why))" 2>&1 </dev/null); then
        $run "$python" -I "$0" "$@"
        exit $?
    fi
    lacking="${lacking:+$lacking; }$python: $(printf '%s' "$lacks" | tail -n 1)"
done
# --- without Python: the job's facts and the end of its output, with curl, from a slurmd in a small container
missing="found no Python 3.6 or newer with its whole standard library${lacking:+ ($lacking)}: make /etc/firstfault/python3 a link to one"
if [ -z "$hook" ]; then
    for word do
        shift
        [ "$word" = wrap ] || continue
        [ "${1-}" != -- ] || shift
        echo 'firstfault-hook: no Python 3.6 or newer here: the command runs, its failure is not reported' >&2
        exec "$@"
    done
    echo "firstfault-hook: $missing" >&2
    exit 1
fi
umask 077
set -f  # what ls tells holds names that users chose
LC_ALL=C line='
'
export LC_ALL
conf=${FIRSTFAULT_HOOK_CONFIG:-/etc/firstfault/hook-$(id -un).conf} log=''
[ -f "$conf" ] || conf=/etc/firstfault/hook.conf
setting() {
    value=$(tr -d '\r' <"$conf" | sed -n -E "s/^[[:space:]]*$1[[:space:]]*[=:][[:space:]]*//Ip" | tail -n 1 | sed 's/[[:space:]]*$//')
    echo "${value:-${2-}}"
}
quantity() {  # of a time or size such as 90, 10m, 0.25h or 16M; what is none is taken for the second argument
    number=$(echo "$1" | sed -n -E -e 's/^0*([0-9]{1,9})([.]([0-9]+))? *[smhdKMG]?B?$/\1 \300/p; t' -e 's/^0*([0-9]{10,18})B?$/\1 00/p')
    [ -n "$number" ] || { echo "$2"; return; }
    case $1 in *m) unit=60 ;; *h) unit=3600 ;; *d) unit=86400 ;; *K*) unit=1024 ;; *M*) unit=1048576 ;; *G*) unit=1073741824 ;; *) unit=1 ;; esac
    part=1$(echo "${number#* }" | cut -c 1-2)
    echo $((${number% *} * unit + (part - 100) * unit / 100))
}
note() {
    if [ -n "$log" ] && [ ! -L "$log" ]; then
        echo "$(date -u +%Y-%m-%dT%H:%M:%SZ) sh[$$] $*" >>"$log"
    else
        logger -t firstfault-hook -p daemon.warning -- "$*"
    fi
}
ours() {  # ours or root's, and nobody else may change it
    set -- $(ls -lndL "$1")
    case ${1-} in -r???-??-?*) [ "$3" = 0 ] || [ "$3" = "$(id -u)" ] ;; *) false ;; esac
}
private() {  # nor read it
    case $(ls -lndL "$1") in -r?-------*) ours "$1" ;; *) false ;; esac
}
slurm() {  # scontrol, which may hang, and may never come to an end
    if command -v timeout >/dev/null; then timeout -s KILL 30 scontrol "$@"; else scontrol "$@"; fi | head -c 4194304
}
take() {  # Slurm's record of the job: the name apart, for it and the words at the end are as their user wrote them
    record='' before='' name='' all=0 own=0 doubt="the words of the job's user leave open what Slurm's record says"
    case $1 in ' ') doubt='' ;; *"$line"*) return ;; esac  # no line end but one of theirs stands in it
    case $1 in *' JobName='*' UserId='*) ;; *) return ;; esac
    before=${1%% JobName=*} rest=${1#* JobName=}
    record=$before after=$rest
    while case $after in *' UserId='*) [ $own -lt 2 ] ;; *) false ;; esac; do
        after=${after#* UserId=} all=$((all + 1))
        [ $all -gt 1 ] || first=$after
        case ${after%% *} in *"(${SLURM_JOB_UID-})") own=$((own + 1)) owner=$after ;; esac
    done
    [ $all -gt 1 ] || own=1 owner=$first
    [ $own = 1 ] || return  # more than one may be Slurm's
    name=${rest%" UserId=$owner"} record="$before UserId=$owner" doubt=''
    case $before in *' HetJobId='*) name=${name%' HetJobIdSet='*} ;; esac
}
field() {  # of that record
    value=${record#* "$1"=}
    [ "$value" = "$record" ] || case ${value%% *} in *null*|None) ;; *) echo "${value%% *}" ;; esac
}
whole() {  # the first of these that is a whole number
    printf '%s\n' "$@" | sed -n -E '/^(0|[1-9][0-9]{0,11})$/p' | head -n 1
}
stands() {  # where the job's StdOut or StdErr is, which may have spaces, or what the hook was told of it
    value=${record##* "$1"=}
    [ "$value" != "$record" ] || value=$2
    printf '%s\n' "$value" | sed -E 's/ [A-Z][A-Za-z:]*=.*//; s/ *$//; s/^[^/].*//'
}
plain() {  # a field of JSON, where there is anything to say
    text=$(printf '%s\n' "$2" | tr -cd 'A-Za-z0-9 ._:@/+=,-' | cut -c 1-200)
    [ -z "$text" ] || printf '"%s": "%s", ' "$1" "$text"
}
fact() {  # of a user's words
    plain "$1" "$(printf '%s\n' "$2" | sed -E "$secrets")"
}
ask() {  # METHOD PATH [argument of curl]…: the answer, and its status as the last line
    method=$1 where=$url$2
    shift 2
    [ -z "$ca" ] || set -- --cacert "$ca" "$@"
    curl --silent --retry "$retries" --max-time "$timeout" --request "$method" --write-out '\n%{http_code}' --config /dev/fd/4 "$@" "$where" 4<<END | tail -c 65536
header = "Authorization: Bearer $token"
${proxy:+proxy = "$proxy"}
${encoding:+header=Content-Encoding:$encoding}
END
}
taken() {  # whether $answer says so; 2 where the service says in its own words that it never will be
    case ${answer##*"$line"} in 2??) return 0 ;; 401|403|408|425|429|[!4]*|'') return 1 ;; esac
    case $answer in *'"error"'*'"hint"'*) return 2 ;; *) return 1 ;; esac
}
reachable() {  # the file of this path, by the job's user: every folder above it lets them through
    folder=$1
    while folder=${folder%/*} && [ -n "$folder" ]; do
        set -- $(ls -lnd "$folder")
        case "${1-} ${3-} ${4-}" in
            d????????[xt]*|d??[xs]*" ${SLURM_JOB_UID-} "*|d?????[xs]*" ${SLURM_JOB_GID-none}") ;;
            *) return 1 ;;
        esac
    done
}
# Line by line, and for a private key as far as its lines go.
secrets='
/-----BEGIN [A-Z0-9 ]*PRIVATE KEY.*-----END / {
    s/(PRIVATE KEY( BLOCK)?-----).*(-----END )/\1[redacted]\3/
    b rest
}
/-----BEGIN [A-Z0-9 ]*PRIVATE KEY/ {
    s/(PRIVATE KEY( BLOCK)?-----).{8,}/\1[redacted]/
    : key
    n
    /-----BEGIN / b key
    /-----END / b
    t line
    : line
    s%(^|[][:space:]>:])[A-Za-z0-9+/=]{1,128}[[:space:]]*$%\1[redacted]%
    t key
    /(Proc-Type|DEK-Info|Version|Comment|Hash): |^[[:space:]]*$/ b key
}
: rest
/A[KS]IA[A-Z0-9]{16}/ s%(^|[^A-Za-z0-9/+=_.-])[A-Za-z0-9/+]{40}([^A-Za-z0-9/+_.-]|$)%\1[redacted]\2%g
s%(authorization["[:space:]]*[:=]["[:space:]]*((bearer|basic|token|digest|negotiate|apikey) +)?)[A-Za-z0-9._~+/=-]{4,}%\1[redacted]%gI
s%(passw(or)?d|passphrase|secret|token|credentials?|_auth|(api|access|private|account|signing|subscription|license|wandb|ssh|hmac|secret)[_-]?key)([^A-Za-z0-9 ]{0,2} ?[=:][^A-Za-z0-9]{0,3})[^[:space:]]{3,}%\1\4[redacted]%gI
s%(pwd["]? ?[=:] ?["]?|[A-Z0-9_]PASS=)[^/~.[:space:]][^[:space:]]{2,}%\1[redacted]%gI
s%([A-Z0-9]_(KEY|TOKEN|SECRET|PASSWORD|PASSWD)[[:space:]]+)[A-Za-z0-9+/=_.~-]{16,}%\1[redacted]%g
s%(--([a-z_-]*[_-])?(password|passwd|token|secret|(api|wandb)[_-]key)[ =]["]?)[^[:space:]"]{4,}%\1[redacted]%gI
s%((mysql[a-z]*|mariadb)[^;|]* -p)[^[:space:]"<>|;&]+%\1[redacted]%g
s%((sshpass|login)[^;|]* -p[ =]?)[^[:space:]"<>|;&]{3,}%\1[redacted]%g
s%(redis-cli[^;|]* -a[ =])[^[:space:]"<>|;&]{3,}%\1[redacted]%g
s%((curl|wget|https?|rclone|lftp)[^;|]* (-[a-zA-Z]*[uU]|--(proxy-)?user)[ =]?["]?[^[:space:]":<>|;&/]+:)[^[:space:]"<>|;&]+%\1[redacted]%g
s%(bearer|basic) [A-Za-z0-9._~+/=-]{8,}%\1 [redacted]%gI
s%(cookie["]?[[:space:]]*[:=,][[:space:]]*["]?)[^[:space:]=;,"<>]+=[^"]+%\1[redacted]%gI
s%([?&;](sig|signature|(x-amz|x-goog)-(signature|credential|security-token))=)[^[:space:]&"<>]{8,}%\1[redacted]%gI
s%(hooks[.]slack[.]com/[a-z]+/|/api/webhooks/[0-9]+/|[.]webhook[.]office[.]com/[a-z0-9]+/)[A-Za-z0-9@/_-]{8,}%\1[redacted]%g
s%(^|[^A-Za-z0-9]|[\\][bfnrtv])(hf_|api_org_|gh[a-z]_|github_pat_|gl(pat|dt|rt|cbt|ptt|ft|soat|imt|agent|oas)-|xox[a-z]-|xapp-|sk[-_]|nvapi-|AKIA|ASIA|AIza|GOCSPX-|ya29[.]|npm_|pypi-|dapi|hv[sb][.]|dckr_pat_|gl(sa|c)_|tskey-|gsk_|xai-|r8_|wandb_v1_|eyJ|MUNGE:|AGE-SECRET-KEY-)[A-Za-z0-9+/=_.-]{12,}%\1[redacted]%g
s%(wandb.*[^A-Za-z0-9])[0-9a-f]{40}([^A-Za-z0-9]|$)%\1[redacted]\2%g
s%://([^/:@[:space:]]*):[^/@[:space:]]+@%://\1:[redacted]@%g
s%^[A-Za-z0-9+/=]{40,}.?$%[redacted]%
s%(^|[][:space:]>:])[A-Za-z0-9+/]{64}([A-Za-z0-9+/]{6}){0,2}[[:space:]]*$%\1[redacted]%
/(root|git|slurm|munge|nobody|hdfs|ubuntu|centos|ec2-user)@|[.](local|internal|lan|svc|localdomain|service|socket|slice|scope|mount)/! s~(^|[^A-Za-z0-9._%+-])[A-Za-z0-9_%+-][A-Za-z0-9._%+-]*@([A-Za-z0-9-]+[.])+[A-Za-z]{2,24}~\1[redacted]~g
'
end_of() {  # of a file that its user owns and reaches, without a torn first line and what looks like a secret
    why="no file that the job's user owns and reaches"
    [ -f "$1" ] && [ ! -L "$1" ] && {
        behind=$(ls -ln /proc/self/fd/3)
        reachable "${behind#* -> }" || return 1
        set -- $(ls -lnL /proc/self/fd/3)
        begin=1 torn='' mark='\n'
        [ "${5:-0}" -le 262144 ] || begin=$(($5 - 262143)) torn=1d
        case "${1-} ${3-}" in -*" ${SLURM_JOB_UID-none}") ;; *) return 1 ;; esac
        why='not written since the job began'
        [ -z "$started" ] || [ "$(date -r /proc/self/fd/3 +%s)" -ge $((started - 30)) ] || return 1  # clocks differ
        why='its end is one long line'
        [ -z "$torn" ] || [ -n "$(tail -c +$begin </proc/self/fd/3 | head -c 262144 | sed -n '2{=;q;}')" ] || mark='\r'
        tail -c +$begin <&3 | head -c 262144 | tr "$mark" '\n' | sed -e "$torn" -e "s%$(printf '\033')[[][0-9;]*[A-Za-z]%%g" | tr -d '\000' | sed -E "$secrets"
    } 3<"$1"
}
ready() {  # a folder for the report, in the spool where there can be one, which is the Python part's too
    stamp=$(printf '%020d' "$(date +%s)000000")-$id-$$ spool=$(setting spool /var/spool/firstfault) zip=gzip lost='' made=''
    [ -d "$spool" ] || { mkdir -p "$spool" && chmod 711 "$spool"; }
    spool=$spool/$(id -un)
    mkdir -m 700 "$spool"
    set -- $(ls -lnd "$spool")
    case "${1-} ${3-}" in
        drwx------*" $(id -u)") { command -v tar && command -v gzip; } || lost='tar and gzip are missing' ;;
        *) lost="$spool must be a folder of $(id -un) with mode 0700" ;;
    esac
    [ -z "$lost" ] || spool='' zip=''
    [ -z "$spool" ] || room "$spool/$stamp.shell" || lost="$spool is full or cannot be written to"
    [ -z "$lost" ] || room "${TMPDIR:-/tmp}/firstfault-$stamp"
}
room() {  # make that folder, if what will be written to it finds room
    work=$1
    mkdir -m 700 "$work" && made=$work && mkdir "$work/logs" && head -c 1048576 /dev/zero >"$work/text"
    set -- $(ls -ln "$work/text")
    [ "${5-}" = 1048576 ] || { [ -z "$made" ] || rm -rf "$made"; made=''; return 1; }
    : >"$work/text"
}
pack() {  # the report: report.json, of which each part has a line of its own, and logs by number
    names='' unread='' number=0 sent='' last=''
    [ -z "$doubt" ] || unread="\"$node: $doubt\""
    for output in "$(stands StdOut "${SLURM_JOB_STDOUT-}")" "$(stands StdErr "${SLURM_JOB_STDERR-}")"; do
        case $output in ''|/dev/null|"$sent") continue ;; esac
        [ "$node" = "$first" ] || continue
        sent=$output log_name=$(printf '%s\n' "${output##*/}" | sed -E "$secrets" | tr -c 'A-Za-z0-9._\n+-' _ | tail -c 181)
        [ "$log_name" != "$last" ] || log_name=stderr/$log_name
        last=$log_name
        case $output in
            *%*) why='its name differs by node or task, which needs Python' && false ;;
            *) end_of "$output" >"$work/text" && { [ -s "$work/text" ] || [ ! -s "$output" ]; } ;;
        esac || { unread="$unread${unread:+, }\"$node: $log_name: $why\""; continue; }
        [ -s "$work/text" ] || continue
        ${zip:-cat} <"$work/text" >"$work/logs/$number.gz" || return 1
        names="$names${names:+, }\"$log_name\"" number=$((number + 1))
    done
    closing="{$who, \"job\": {$facts${unread:+, \"unread\": [$unread]}}}"
    printf '{"opening":\n%s\n,"closing":\n%s\n,"names":\n[%s]\n}\n' "$opening" "$closing" "$names" >"$work/report.json"
}
tell() {  # the service what is packed in that folder; its id for it goes into `incident`
    answer=$(sed -n 2p "$1/report.json" | ask POST /v1/incidents --header 'Content-Type: application/json' --data-binary @-)
    taken || return
    incident=$(printf '%s\n' "$answer" | sed -n -E 's/.*"id": *"([A-Za-z0-9_.-]+)".*/\1/p' | tail -n 1)
    [ -n "$incident" ] || return 1
    number=0 failed='' encoding=$zip
    for each in $(sed -n 6p "$1/report.json" | tr -cd 'A-Za-z0-9._/+ -'); do
        answer=$(ask PUT "/v1/incidents/$incident/logs/$each" --header 'Content-Type: application/octet-stream' --data-binary "@$1/logs/$number.gz")
        taken || failed="$failed${failed:+, }\"$node: $each: could not be sent\""
        number=$((number + 1))
    done
    closing=$(sed -n 4p "$1/report.json") encoding='' end='}}'
    case $closing in *'"unread": ['*) end=']}}' ;; esac
    [ -z "$failed" ] || if [ "$end" = '}}' ]; then
        closing="${closing%"$end"}, \"unread\": [$failed]$end"
    else
        closing="${closing%"$end"}, $failed$end"
    fi
    answer=$(printf '%s\n' "$closing" | ask POST "/v1/incidents/$incident/complete" --header 'Content-Type: application/json' --data-binary @-)
    taken
}
deliver() {  # what is packed, which waits in the spool until the service has it, and then what else waits there
    kept=$spool/$stamp.report
    [ -n "$lost" ] || { tar -cf "$kept.part" -C "$work" report.json logs && mv "$kept.part" "$kept"; } || { rm -f "$kept.part"; lost='the spool cannot take it'; }
    tell "$work"
    case $? in
        0) note "job $id is incident $incident, told without Python${failed:+, but $failed}" ;;
        2) note "job $id: the service refused the report: $(said)" ;;
        *) lost=${lost:+is lost: $lost}
            note "job $id: the report did not reach $url and ${lost:-waits in $spool}"
            [ -z "$spool" ] || tidy
            return ;;
    esac
    [ -z "$spool" ] || { rm -f "$kept"; flush; tidy; }
}
said() {
    printf '%s' "$answer" | tr '\n' ' ' | tr -cd 'A-Za-z0-9 ._:,-' | cut -c 1-300
}
flush() {  # the oldest first; a report of the Python part is left to it
    waiting=$work/waiting missed=0
    for each in $(ls "$spool"); do
        report=$spool/$each
        case $each in *.report) rm -rf "$waiting" ;; *) continue ;; esac
        [ -f "$report" ] && mkdir -m 700 "$waiting" && tar -xf "$report" -C "$waiting" || continue
        [ "$(head -n 1 "$waiting/report.json" | head -c 99)" = '{"opening":' ] || continue
        tell "$waiting"
        case $? in
            0) note "delivered $report as incident $incident" ;;
            2) note "dropped the report ${report##*/}: the service refused it: $(said)" ;;
            *) missed=$((missed + 1))
                [ $missed -lt 3 ] || break
                continue ;;
        esac
        rm -f "$report"
    done
}
tidy() {  # keep the spool within its size and age, without what was never finished
    total=0 now=$(date +%s) most=$(quantity "$(setting spool_bytes)" 268435456) age=$(quantity "$(setting spool_age)" 259200)
    for each in $(ls -r "$spool"); do
        case $each in [0-9]*.report|[0-9]*.report.part|[0-9]*.shell) ;; *) continue ;; esac
        set -- $(ls -lnd "$spool/$each")
        written=$(echo "${each%%-*}" | tr -cd 0-9 | sed -E 's/^0*//; s/.{6}$//') why=''
        case $each in
            *.report) total=$((total + ${5:-0}))
                [ $((now - ${written:-0})) -le "$age" ] || why='it is too old'
                [ $total -le "$most" ] || why='the spool is full' ;;
            *) [ $((now - ${written:-0})) -le 3600 ] || why='it was never finished' ;;
        esac
        [ -z "$why" ] || { rm -rf "${spool:?}/$each"; note "dropped the report $each: $why"; }
    done
}
report() {
    url=$(setting url) token=$(setting token) ca=$(setting ca_file) proxy=$(setting proxy | tr -d '"\\') timeout=$(quantity "$(setting timeout)" 10) retries=3 encoding=''
    url=${url%/} from=$conf
    [ "$FIRSTFAULT_DETACHED" = yes ] || retries=0 timeout=2
    [ -n "$token" ] || { from=$(setting token_file /etc/firstfault/token); token=$(head -n 1 "$from"); }
    private "$from" || { note "$from must exist, be ours or root's, and have mode 0600"; return; }
    id=${SLURM_JOB_ID-} node=${SLURMD_NODENAME:-$(hostname)} role=node
    [ "${SLURM_SCRIPT_CONTEXT-}" = epilog_slurmd ] || role=controller
    case $id in ''|*[!0-9]*) return ;; esac
    PATH=$(setting slurm_bin /usr/bin):$PATH SLURM_CONF=$(setting slurm_conf "${SLURM_CONF:-/etc/slurm/slurm.conf}") silent=0
    export SLURM_CONF
    while take " $(slurm show job -o "$id" | grep "^JobId=$id ")"; state=$(field JobState); [ "${state:-COMPLETING}" = COMPLETING ] && [ -z "$doubt" ]; do
        [ -n "$state" ] || silent=$((silent + 1))
        [ $silent -lt 3 ] && [ "$(date +%s)" -lt "$until" ] || break
        sleep 2
    done
    [ -z "$doubt" ] || note "job $id: $doubt: it is told by what the hook was told"
    code=$(printf '%s\n' "$(field ExitCode)" "${SLURM_JOB_EXIT_CODE2-}" 0:0 | sed -n -E '/^(0|[1-9][0-9]{0,8}):[0-9]{1,9}$/p' | head -n 1)
    started=$(whole "${SLURM_JOB_START_TIME-}")
    began=$(field StartTime | sed -n -E 's/^([0-9-]+)T([0-9:]+)$/\1 \2/p')
    [ -n "$started" ] || [ -z "$began" ] || started=$(date -d "$began" +%s)
    case $state in
        FAILED|TIMEOUT|OUT_OF_MEMORY|NODE_FAIL|BOOT_FAIL|DEADLINE|LAUNCH_FAILED) ;;
        ''|COMPLETING) case $(field Reason) in
            TimeLimit) state=TIMEOUT ;;
            OutOfMemory) state=OUT_OF_MEMORY ;;
            NodeDown) state=NODE_FAIL ;;
            *) [ "$code" != 0:0 ] || return; state=FAILED ;;
        esac ;;
        *) return ;;
    esac
    nodes=$(slurm show hostnames "${SLURM_NODELIST-${SLURM_JOB_NODELIST-}}" | tr -cd 'A-Za-z0-9._\n-')
    first=$(echo "$nodes" | head -n 1)
    first=${first:-$node}
    case $state,$code in FAILED,*:1|FAILED,*:2|FAILED,*:9|FAILED,*:15|FAILED,129:0|FAILED,130:0|FAILED,137:0|FAILED,143:0)
        [ "$node" = "$first" ] || return  # scancel may have done that, and only the output tells
        ! end_of "$(stands StdOut "${SLURM_JOB_STDOUT-}")" | grep -q "[*] JOB $id ON .* CANCELLED AT [^ ]* [*]" || return ;;
    esac
    attempt=$(whole "$(field Restarts)" "${SLURM_JOB_RESTART_COUNT-}" 0) read=$record record=$before
    het=$(whole "$(field HetJobId)") array=$(whole "$(field ArrayJobId)") record=$read
    facts="$(plain part_of "$array")$(fact name "${name:-${SLURM_JOB_NAME-}}")$(fact user "${SLURM_JOB_USER-}")$(fact account "$(field Account)")$(
        fact partition "$(field Partition)")$(fact state "$state")$(fact reason "$(field Reason)")$(
        fact ended_at "$(date -u +%Y-%m-%dT%H:%M:%SZ)")\"nodes\": [$(
        for each in $nodes; do printf '%s"%s"' "${comma-}" "$each"; comma=,; done)], \"exit_code\": ${code%%:*}"
    who="$(plain reporter "$node")\"role\": \"$role\""
    opening="{\"schema\": 1, \"scheduler\": \"slurm\", \"job_id\": \"${het:-$id}\", \"attempt\": $attempt, $who, \"job\": {$facts}}"
    if ready && pack; then deliver; else note "job $id: the report is lost: nothing can be written to ${work%/*}"; fi
    [ -z "$made" ] || rm -rf "$made"
}
[ -z "${JOBSTATE-}" ] || exit 0  # EpilogSlurmctld tells
ours "$conf" || { note "$conf must exist, be ours or root's, and be writable by nobody else"; exit 0; }
log=$(setting log_file)
if ! command -v curl; then
    note "$missing, and no curl either: job ${SLURM_JOB_ID-} is not looked at"
    exit 0
fi
wait=$(quantity "$(setting wait)" 600)
if [ "$FIRSTFAULT_DETACHED" != yes ]; then  # Slurm ends what stays behind, so that all is done while it waits
    until=0
    report
    exit 0
fi
until=$(($(date +%s) + wait))
{
    sleep $((wait + 300)) &
    alarm=$!
    { report; kill -KILL 0; } &  # nobody else is in our process group
    wait $alarm || exit
    note "job ${SLURM_JOB_ID-}: gave up"
    kill -KILL 0
} &
exit 0
