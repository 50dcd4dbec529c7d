#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# xylem-topo as a program: files in, text, JSON, drawings and exit codes out.
set -eu
folder=${srcdir:-.}/tests/topo/machines
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
fail() {
  echo "FAIL: $*"
  exit 1
}
# expect CODE PATTERN ARGUMENT...: what standard error must say.
expect() {
  code=0
  wanted=$1 pattern=$2
  shift 2
  ./xylem-topo "$@" >"$scratch/out" 2>"$scratch/err" || code=$?
  [ "$code" = "$wanted" ] || fail "xylem-topo $*: exit code $code, not $wanted: $(cat "$scratch/err")"
  grep -q -e "$pattern" "$scratch/err" || fail "xylem-topo $* does not say \"$pattern\": $(cat "$scratch/err")"
}

if [ -c /dev/full ]; then
  ! ./xylem-topo --help 2>/dev/null >/dev/full || fail "help that nobody can read is a success"
fi

for file in "$folder"/*.xml; do
  ./xylem-topo --file "$file" --export "$scratch/a.json" >"$scratch/text"
  grep -q '^GPU0 ' "$scratch/text" || fail "no matrix of $file"
  ./xylem-topo --file "$scratch/a.json" --format json >"$scratch/b.json"
  cmp "$scratch/a.json" "$scratch/b.json" || fail "export and import of $file"
  ./xylem-topo --file "$file" --advise >/dev/null
done

# Without GPUs, or with this machine's.
./xylem-topo --plan 64K | grep -q '^\*' || fail "no winner on this machine"

asus=$(echo "$folder"/asus*.hwloc2.xml)
./xylem-topo --file "$folder"/dual-genoa*.hwloc2.xml | tail -n 1 | grep -q '^Found: Slow cards' || fail "what is wrong is not named"
# Plans, of a machine and of a cluster.
./xylem-topo --file "$asus" --plan 64K --collective allgather --ranks 6 | grep -q '^\*' || fail "no winner"
./xylem-topo --file "$asus" --plan 64K --nodes 4096 --network 100,2.5 | grep -q '4096 nodes of 8' || fail "no cluster"
[ "$(./xylem-topo --file "$asus" --curve | wc -l)" = 22 ] || fail "no curve"
if command -v gnuplot >/dev/null; then
  ./xylem-topo --file "$asus" --curve --nodes 16 --format svg | grep -q '</svg>' || fail "no picture of the curve"
fi
./xylem-topo --file "$asus" --format dot | grep -q 'graph machine' || fail "no drawing"
if command -v dot >/dev/null; then
  ./xylem-topo --file "$asus" --format svg | grep -q '</svg>' || fail "no SVG"
fi
# Without Graphviz on PATH.
expect_svg=$(PATH=/nowhere ./xylem-topo --file "$asus" --format svg 2>&1 >/dev/null || true)
case $expect_svg in
  *'not installed'*) ;;
  *) fail "without Graphviz: $expect_svg" ;;
esac

# This machine, whatever it is.
./xylem-topo >/dev/null
./xylem-topo --advise >/dev/null

printf '<system>\n<cpu numaid="0">\n<pci busid="7"/>\n</cpu>\n</system>\n' >"$scratch/bad.xml"
expect 1 'bad.xml: line 3: busid "7"' --file "$scratch/bad.xml"
expect 1 'cannot open' --file "$scratch/none.xml"
expect 1 'is not a regular file' --file "$scratch"
printf '{"pairs": [{"from": "GPU 0", "to": "GPU 99"}]}' >"$scratch/override.json"
expect 1 'override.json: line 1: pairs\[0\].to' --file "$asus" --override "$scratch/override.json"
expect 1 'cannot write' --file "$asus" --export "$scratch/no/such/folder"
expect 2 'text, json, dot or svg is expected, not "png"' --format png
expect 2 '\-\-file' --file "$asus" --probe
# Where no GPU is, there is nothing to probe.
if ! ls /dev/nvidia[0-9]* >/dev/null 2>&1; then
  expect 1 'there are 0 GPUs' --probe
fi
code=0
XYLEM_TOPO_FILE=relative.xml ./xylem-topo >/dev/null 2>"$scratch/err" || code=$?
[ $code = 2 ] || fail "a relative XYLEM_TOPO_FILE: exit code $code"
XYLEM_TOPO_FILE=$(cd "$folder" && pwd)/h200x2-vm-nvlink.nccl.xml ./xylem-topo | grep -q NV18 || fail "XYLEM_TOPO_FILE"
