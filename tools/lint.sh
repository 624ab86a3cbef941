#!/usr/bin/env bash
# Every check that needs no test run. It changes no file and reports all findings before it fails.
#   tools/lint.sh             the whole tree
#   tools/lint.sh --changed   only files that differ from the branch main, for use while working
# Packages: scripts/setup.sh lint
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

failed=()
check() {  # check <name> <command...>
  local name=$1
  shift
  echo "[lint] $name"
  "$@" || failed+=("$name")
}

# A checkout can belong to another user than root, who runs it in CI.
list_files() { git -c safe.directory="$PWD" "$@"; }
if [ "${1:-}" = "--changed" ]; then
  mapfile -t files < <({
    list_files diff --name-only --diff-filter=d main
    list_files ls-files --others --exclude-standard
  } | sort -u)
else
  mapfile -t files < <(list_files ls-files --cached --others --exclude-standard --deduplicate)
  if [ ${#files[@]} -eq 0 ]; then
    echo "[lint] git lists no file in $PWD" >&2
    exit 1
  fi
fi
select_files() {  # select_files <extended regular expression>: the existing files that match, one a line
  local file
  for file in "${files[@]}"; do
    if [[ $file =~ $1 && -f $file ]]; then printf '%s\n' "$file"; fi
  done
}
mapfile -t code < <(select_files '\.(h|cpp|cu|cuh)$')
mapfile -t scripts < <(select_files '(\.sh|^\.ci/run)$')
mapfile -t python < <(select_files '\.py$')
mapfile -t texts < <(select_files '(\.(h|cpp|cu|cuh|py|sh|md|txt|cmake|json|toml|yaml|dot)|^\.ci/run|^\.clang-.*)$')
# Tests are compiled with all warnings; tidying them as well would double the time.
mapfile -t tidied < <(select_files '^(src|python/src)/.*\.cpp$' | grep -vE '_(test|bench|fuzz|cuda|ascend)\.cpp$')

trailing_space() {
  ! grep -nE '[[:blank:]]+$' -- "${texts[@]}"
}

# Only what the build knows: without compile commands clang-tidy guesses flags and reports nonsense.
# Generated headers must be there; nothing else has to be built.
tidy() {
  {
    cmake --preset cpu &&
      ninja -C build/cpu -t targets all | sed -n 's/\.pb\.h: .*/.pb.h/p' | xargs -r ninja -C build/cpu
  } >build/tidy.log 2>&1 || { cat build/tidy.log; return 1; }
  local file known=()
  for file in "${tidied[@]}"; do
    if grep -qF "\"file\": \"$PWD/$file\"" build/cpu/compile_commands.json; then known+=("$file"); fi
  done
  [ ${#known[@]} -eq 0 ] ||
    printf '%s\0' "${known[@]}" | xargs -0 -n 1 -P "$(nproc)" clang-tidy-14 -p build/cpu --quiet 2>build/tidy.log ||
    { grep -vE '^[0-9]+ warnings? (generated|treated)' build/tidy.log; return 1; }
}

# In an environment of its own, made once.
ruff() {
  local environment=build/lint-env
  [ -d "$environment" ] || /usr/bin/python3 -m venv "$environment"
  "$environment/bin/python" -m pip install --quiet --disable-pip-version-check --requirement tools/requirements_lint.txt
  "$environment/bin/ruff" check --quiet "$@"
}

[ ${#code[@]} -eq 0 ] || check clang-format clang-format-14 --dry-run --Werror "${code[@]}"
check check_includes python3 tools/check_includes.py
check check_includes_test python3 tools/check_includes_test.py --quiet
check compare_gpu_test python3 benchmarks/compare_gpu_test.py --quiet
if [ ${#texts[@]} -gt 0 ]; then
  check codespell codespell --ignore-words tools/codespell_ignore.txt "${texts[@]}"
  check trailing-space trailing_space
fi
[ ${#python[@]} -eq 0 ] || check ruff ruff "${python[@]}"
[ ${#scripts[@]} -eq 0 ] || check shellcheck shellcheck "${scripts[@]}"
mkdir -p build
[ ${#tidied[@]} -eq 0 ] || check clang-tidy tidy

if [ ${#failed[@]} -gt 0 ]; then
  echo "[lint] failed: ${failed[*]}" >&2
  exit 1
fi
echo "[lint] clean"
