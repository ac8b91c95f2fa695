# Sets up what Affidavit needs; read by `run` and `test`, not run by itself.
#
#   affidavit_setup run|test ask|unattended
#
# System libraries come by apt on Debian and its kin, after a question unless unattended. Python packages come into
# .venv, exactly those of the lock files, each checked by its hash. A stamp remembers what was set up, so a second start
# costs nothing.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
venv=$root/.venv
mitmproxy_venv=$root/.venv-mitmproxy

# The windows need these; a broker without a display needs none of them.
window_packages="libegl1 libgl1 libglib2.0-0 libfreetype6 libfontconfig1 libdbus-1-3 libxkbcommon0 libxkbcommon-x11-0
  libxcb-cursor0 libxcb-icccm4 libxcb-keysyms1 libxcb-shape0 libwayland-cursor0 libwayland-egl1"
test_packages="fonts-inter fonts-dejavu-core xvfb openbox xfce4-panel xdotool x11-utils imagemagick dbus at-spi2-core
  python3-pyatspi gir1.2-atspi-2.0 libglib2.0-bin gnome-keyring libsecret-tools git openssh-client openssh-server
  rsync strace util-linux"

fail() {
  printf 'affidavit: %s\n' "$1" >&2
  [ $# -lt 2 ] || printf '  next: %s\n' "$2" >&2
  exit 1
}

missing_packages() {
  command -v dpkg-query >/dev/null 2>&1 || return 0
  local name
  for name in $1; do
    dpkg-query -W -f='${Status}' "$name" 2>/dev/null | grep -q 'ok installed' || printf '%s ' "$name"
  done
}

install_packages() {
  local missing=$1 how=$2 answer become=
  [ -n "$missing" ] || return 0
  if ! command -v apt-get >/dev/null 2>&1; then
    printf 'affidavit: these libraries seem to be missing, and there is no apt-get to install them: %s\n' "$missing" >&2
    return 0
  fi
  [ "$(id -u)" = 0 ] || become=sudo
  if [ "$how" = ask ]; then
    [ -t 0 ] || fail "These system packages are missing: $missing" "${become:+$become }apt-get install $missing"
    printf 'Affidavit needs these system packages:\n  %s\nInstall them now with %sapt-get? [y/N] ' "$missing" "${become:+$become }"
    read -r answer
    case $answer in y | Y | yes) ;; *) fail "Nothing was installed." "${become:+$become }apt-get install $missing" ;; esac
  fi
  printf 'Installing system packages ...\n' >&2
  local log
  log=$(mktemp)
  # shellcheck disable=SC2086
  if ! { timeout 600 $become apt-get update && timeout 1200 $become env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y --no-install-recommends $missing; } >"$log" 2>&1 </dev/null; then
    tail -n 20 "$log" >&2
    rm -f "$log"
    fail "The system packages could not be installed." "${become:+$become }apt-get install $missing"
  fi
  rm -f "$log"
}

find_python() {
  local name
  for name in python3 python3.13 python3.12 python3.11; do
    if command -v "$name" >/dev/null 2>&1 && "$name" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
      command -v "$name"
      return 0
    fi
  done
  return 1
}

affidavit_setup() {
  local what=$1 how=$2 python packages='' locks stamp seen
  python=$(find_python) || fail "Affidavit needs Python 3.11 or newer." "Install it, such as: apt-get install python3"
  if [ "$what" = test ]; then
    packages="$window_packages $test_packages"
  elif [ -n "${DISPLAY:-}${WAYLAND_DISPLAY:-}" ]; then
    packages=$window_packages
  fi
  "$python" -c 'import ensurepip, venv' 2>/dev/null || packages="$packages python3-venv"
  install_packages "$(missing_packages "$packages")" "$how"

  locks="$root/packaging/requirements.txt"
  [ "$what" = run ] || locks="$locks $root/packaging/requirements-test.txt"
  stamp=$venv/affidavit-$what.stamp
  # shellcheck disable=SC2086
  seen=$(cat $locks "$root/pyproject.toml" | sha256sum | cut -d' ' -f1)-$root
  if [ "$(cat "$stamp" 2>/dev/null)" = "$seen" ]; then
    return 0
  fi
  # shellcheck disable=SC2086
  install_locked "$venv" $locks
  timeout 300 "$venv/bin/python" -m pip install -q --disable-pip-version-check --no-deps --no-build-isolation -e "$root" </dev/null >&2 ||
    fail "Affidavit could not be installed into .venv." "rm -r .venv, then try again"
  printf '%s' "$seen" >"$stamp"
}

# Install lock files into a virtual environment, which is made if it is not there: install_locked DIRECTORY LOCK...
install_locked() {
  local into=$1 name=${1##*/} arguments=() lock
  shift
  printf 'Setting up %s from the lock files ...\n' "$name" >&2
  [ -x "$into/bin/python" ] || "$(find_python)" -m venv "$into" || fail "$name could not be made." "rm -r $name, then try again"
  for lock in "$@"; do arguments+=(-r "$lock"); done
  timeout 1500 "$into/bin/python" -m pip install -q --disable-pip-version-check --require-hashes "${arguments[@]}" </dev/null >&2 ||
    fail "The Python packages could not be installed." "Check the network, then try again"
}

# mitmproxy, which the benchmark measures against, in a virtual environment of its own; after affidavit_setup.
mitmproxy_setup() {
  local lock=$root/packaging/requirements-bench.txt seen
  seen=$(sha256sum <"$lock")
  if [ "$(cat "$mitmproxy_venv/affidavit.stamp" 2>/dev/null)" != "$seen" ]; then
    install_locked "$mitmproxy_venv" "$lock"
    printf '%s' "$seen" >"$mitmproxy_venv/affidavit.stamp"
  fi
}
