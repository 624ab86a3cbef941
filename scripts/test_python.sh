#!/usr/bin/env bash
# The Python package from a fresh clone: installs what is missing, builds a wheel into an environment
# of its own (build/python-env) and runs its tests. Further arguments go to pytest.
#   PYTHON   the interpreter, whose packages the environment sees; default Debian's, /usr/bin/python3
#   TL_CUDA  ON, OFF (default: the tests run on the CPU) or AUTO
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

scripts/setup.sh python
environment=build/python-env
"${PYTHON:-/usr/bin/python3}" -m venv --clear --system-site-packages "$environment"
"$environment/bin/python" -m pip install --quiet --disable-pip-version-check \
  --config-settings "cmake.define.TL_CUDA=${TL_CUDA:-OFF}" . --requirement python/requirements_test.txt
exec "$environment/bin/python" -m pytest -q -p no:cacheprovider python/tests "$@"
