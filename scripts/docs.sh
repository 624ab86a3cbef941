#!/usr/bin/env bash
# The documentation site, into build/docs/site: pages, and the API reference from the docstrings of the Python package that
# scripts/test_python.sh installed. Fails on a link that leads nowhere.
#   scripts/docs.sh [serve]     serve: shows it on http://127.0.0.1:8000 instead
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

package=build/python-env
if [ ! -x "$package/bin/python" ]; then
  echo "[docs] $package is missing: run scripts/test_python.sh first" >&2
  exit 1
fi
environment=build/docs/env
[ -x "$environment/bin/mkdocs" ] || python3 -m venv "$environment"
"$environment/bin/python" -m pip install --quiet --disable-pip-version-check --requirement docs/requirements.txt

rm -rf build/docs/source build/docs/package
mkdir -p build/docs/source build/docs/package
git -c safe.directory="$PWD" ls-files -z -- '*.md' '*.txt' '*.toml' LICENSE docs examples scripts benchmarks/results tests/testing |
  xargs -0 cp --parents --target-directory=build/docs/source
# The package as it was installed, with the types of its compiled part but without that part.
installed=$("$package/bin/python" -c 'import importlib.util; print(importlib.util.find_spec("turbolstm").submodule_search_locations[0])')
cp -r "$installed" build/docs/package/
find build/docs/package -name '*.so' -delete

export PYTHONPATH=$PWD/build/docs/package
if [ "${1:-}" = serve ]; then
  exec "$environment/bin/mkdocs" serve
fi
exec "$environment/bin/mkdocs" build --quiet --strict
