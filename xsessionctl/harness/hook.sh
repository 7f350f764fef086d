#!/bin/sh
# What a harness runs as a command hook: hook.sh HARNESS EVENT [wait]
#
# It tells the running shim of its session, by way of a directory that the shim keeps for the harness's process, and
# starts no process of its own unless something waits for the session:
#
#   events  a pipe: one line for each event. It is opened for reading too, so that it never blocks, whoever is dead.
#   mail    is there exactly while something waits for the session; only then is an answer asked for.
#   waiter  is there exactly while the shim wants a hook that waits, by which it can wake the session.
#   run     the Python and the program that ask for the answer.
#
# No directory, no shim, no broker, or one that hangs: it says nothing and ends with 0.
hooks=${XSESSIOND_STATE_DIR:-${XDG_STATE_HOME:-$HOME/.local/state}/xsessiond}/hooks
find_dir() {
  # Claude Code says which process it is to its hooks, and so to another harness that one of them starts.
  if [ "$1" = claude ] && [ -n "$CLAUDE_PID" ] && [ -p "$hooks/$CLAUDE_PID/events" ]; then
    dir=$hooks/$CLAUDE_PID
  elif [ -p "$hooks/$PPID/events" ]; then
    dir=$hooks/$PPID
  else
    # Between the harness and this script there may be a shell that only starts it.
    if [ -d /proc/self ]; then
      { IFS= read -r above <"/proc/$PPID/stat"; } 2>/dev/null || return 1
      above=${above##*) ? }
    else
      above=$(ps -o ppid= -p "$PPID" 2>/dev/null) || return 1 # macOS has no other way
      above=${above##* }
    fi
    dir=$hooks/${above%% *}
    [ -p "$dir/events" ]
  fi
}
if ! find_dir "$1"; then
  # A session that has just begun may be quicker than its shim. A hook that waits has the time.
  [ "$3" = wait ] || exit 0
  tries=0
  until find_dir "$1"; do
    tries=$((tries + 1))
    [ $tries -lt 50 ] || exit 0
    sleep 0.2
  done
fi
case $1 in
  claude) session=$CLAUDE_CODE_SESSION_ID ;;
  gemini) session=$GEMINI_SESSION_ID ;;
  *) session= ;;
esac
# One line that a pipe takes in one piece; more would wait for a shim that hangs, and a line break would be two events.
case $session in
  *[!0-9A-Za-z._-]*) session= ;;
esac
[ ${#session} -le 200 ] || session=
{ printf '%s %s\n' "$2" "$session" 1<>"$dir/events"; } 2>/dev/null
if [ "$3" = wait ]; then
  [ -e "$dir/waiter" ] || exit 0
else
  [ -e "$dir/mail" ] || exit 0
fi
{ IFS= read -r python && IFS= read -r program; } 2>/dev/null <"$dir/run" || exit 0
[ -x "$python" ] || exit 0
exec "$python" -I -S "$program" "$dir" "$2" "$3"
