#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# mpirun --self-test [OPTIONS OF MPIRUN]: about a minute of messages, collectives and windows with checked data, over each
# transport that this machine has.  Exit status: 0, 1 (something failed).
set -u
mpirun=$1 info=${1%/*}/weft_info bench=${0%/*}
shift
[ -x "$bench/osu_latency" ] || bench=$bench/test/bench # in the build tree
failed=0 several=
for word; do
    case $word in -H* | -host* | --host* | -machinefile | --machinefile) several=yes ;; esac
done

# try TRANSPORTS BUFFERS PROGRAM RANKS ...: "default" leaves the choice to the library.
try() {
    list=$1 kind=$2 program=$3 ranks=$4
    shift 4
    set -- --timeout 60 --quiet ${ranks:+-n "$ranks"} "$@"
    [ "$list" = default ] || set -- "$@" --set btl="self,$list"
    begin=$(date +%s)
    # shellcheck disable=SC2086 # words
    if out=$("$mpirun" "$@" "$bench/$program" -c -m 1:256K -i 20 -x 2 --seconds 1 $kind 2>&1); then
        verdict=ok
    else
        verdict=FAIL failed=$((failed + 1))
    fi
    printf '%-4s %-10s %-22s %2d s\n' "$verdict" "$list" "$program$kind" $(($(date +%s) - begin))
    [ $verdict = ok ] || printf '%s\n' "$out" | tail -n 6 | sed 's/^/     | /'
}

# over TRANSPORTS BUFFERS [OPTIONS OF MPIRUN]
over() {
    list=$1 kind=$2
    shift 2
    for program in osu_latency osu_bibw; do try "$list" "$kind" $program 2 "$@"; done
    for program in osu_allreduce osu_alltoall osu_bcast; do try "$list" "$kind" $program "$ranks" "$@"; done
    [ -n "$kind" ] || for program in osu_put_latency osu_fop_latency; do try "$list" "" $program 2 "$@"; done
}

# As many ranks as the user says, else a few.
ranks=4
for word; do
    case $word in -n | -np | -c | --np | --n) ranks= ;; esac
done
[ -z "$several" ] || ranks=
if [ -n "$ranks" ]; then set -- --oversubscribe "$@"; fi

"$info" --doctor
echo
over default "" "$@"
[ -n "$several" ] || over shm "" "$@"
over tcp "" "$@"
if "$info" --net | grep -q '^ *verbs  [^n]'; then over verbs,tcp "" "$@"; fi
if ! "$info" --gpu | grep -q 'No device can be used'; then over default " -d cuda D D" "$@"; fi
[ $failed = 0 ] && echo "All checks passed." || echo "$failed failed; the log of one: $mpirun with --set btl=self,... and the program in $bench"
[ $failed = 0 ]
