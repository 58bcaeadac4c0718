# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# shellcheck shell=bash
# What ./test and ./demo share: where to build (on this machine or in a container), and building there.

here=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
export NINJA_STATUS="[%f/%t %es] "
if [ -n "${CI:-}" ]; then export GTEST_COLOR=no; fi

say() { printf '\n\033[1m== %s\033[0m\n' "$*"; }
step() { printf '%s  %s\n' "$(date +%T)" "$*"; }
fail() { printf '%s\n' "$*" >&2; exit 1; }

# probe: what CMake finds on this machine, in $native_kokkos, $native_devices, $native_mpi, ...
probe() {
  [ -z "${probed:-}" ] || return 0
  probed=1
  native_kokkos='' native_devices='' native_mpi='' native_kernels='' native_netcdf='' native_pnetcdf='' native_cairo='' native_fftw=''
  why_not_native="CMake 3.25 or later is not installed"
  command -v cmake >/dev/null || return 0
  local build line word generator=()
  if command -v ninja >/dev/null; then generator=(-G Ninja); fi
  build=$(mktemp -d)
  cmake -S "$here/tools/probe" -B "$build" "${generator[@]}" >"$build/log" 2>&1 || true
  line=$(sed -n 's/^-- shard-probe: //p' "$build/log")
  why_not_native=$(grep -m1 -A3 'CMake Error' "$build/log" || true)
  rm -rf "$build"
  for word in $line; do
    local value=${word#*=}
    case $value in 0 | FALSE | *-NOTFOUND) value='' ;; esac
    printf -v "native_${word%%=*}" %s "$value"
  done
  if [ -n "$line" ]; then
    why_not_native="CMake finds $(missing_of Kokkos "$native_kokkos") and $(missing_of MPI "$native_mpi")"
  fi
}
missing_of() { if [ -n "$2" ]; then echo "$1 $2"; else echo "no $1"; fi; }

native_usable() { probe && [ -n "$native_kokkos" ] && [ -n "$native_mpi" ]; }

# Containers need root on Debian, and a machine that lets root mount.
container_possible() {
  [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null && [ -e /usr/share/keyrings/debian-archive-keyring.gpg ] &&
    unshare --mount true 2>/dev/null
}

# Says what to install, and stops.
explain_and_stop() {
  probe
  cat >&2 <<END

shard needs a C++20 compiler, CMake 3.25, Ninja or make, MPI 3.1 and Kokkos 4.5 or later (and GoogleTest for the tests).
$why_not_native; and no container can be made here, for which this must be root on Debian.

Install one of these and come back:
  a cluster       module load its Kokkos and MPI, or: spack install kokkos openmpi googletest && spack load kokkos openmpi googletest
  Debian unstable, Ubuntu 26.04 or later
                  apt install g++ cmake ninja-build pkgconf libkokkos-dev libopenmpi-dev openmpi-bin libgtest-dev libcli11-dev libnetcdf-dev libpnetcdf-dev libcairo2-dev libfftw3-dev
  from source     https://github.com/kokkos/kokkos/releases, and then: export Kokkos_ROOT=/where/it/was/installed
docs/building.md says more.
END
  exit 1
}

# choose STACK: sets $where to native or to the stack's container, which is made if need be, or to nothing.
choose() {
  if [ "$1" = "${native_stack:=$(native_stack)}" ]; then where=native; else choose_container "$1"; fi
}
choose_container() {
  where=
  if container_possible; then
    where=$1
    "$here/tools/container" make "$1"
  fi
}

# The stack that this machine's own Kokkos serves as: the first, unless it is Serial with Kokkos Kernels.
native_stack() {
  if ! native_usable; then
    echo none
  elif [ -n "$native_kernels" ] && [ "$native_devices" = SERIAL ]; then
    echo kernels
  else
    echo openmp
  fi
}

# inside COMMAND...: runs it where $where says. The files and folders that SHARD_* variables and
# ${binds[@]} name are seen in the container.
binds=()
inside() {
  if [ "$where" = native ]; then
    "$@"
    return
  fi
  local name bound=() path
  for name in $(compgen -e SHARD_) ; do
    path=${!name}
    if [ "$name" != SHARD_CACHE ] && [ -e "$path" ]; then bound+=(--bind "$path"); fi
  done
  for path in "${binds[@]}"; do bound+=(--bind "$path"); done
  "$here/tools/container" enter "$where" "${bound[@]}" -- "$@"
}

# install_natively PROGRAM[:PACKAGE]...: what this machine lacks, if it may; a path stands for a file
install_natively() {
  local each lacking=()
  for each; do command -v "${each%%:*}" >/dev/null || [ -e "${each%%:*}" ] || lacking+=("${each#*:}"); done
  [ ${#lacking[@]} -gt 0 ] || return 0
  echo "installing ${lacking[*]}"
  apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "${lacking[@]}"
}

# configure BUILD OPTION...: with Ninja and ccache where they are
configure() {
  local build=$1 log options=()
  shift
  probe
  if inside sh -c 'command -v ninja' >/dev/null; then options+=(-G Ninja); fi
  if inside sh -c 'command -v ccache' >/dev/null; then options+=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache); fi
  if [ "$where" = native ]; then
    options+=(-DSHARD_ENABLE_NETCDF="$(on "$native_netcdf")" -DSHARD_ENABLE_PNETCDF="$(on "$native_pnetcdf")"
      -DSHARD_ENABLE_PICTURES="$(on "$native_cairo")" -DSHARD_ENABLE_FFTW="$(on "$native_fftw")")
  else
    options+=(-DSHARD_ENABLE_NETCDF=ON -DSHARD_ENABLE_PICTURES=ON -DSHARD_ENABLE_FFTW=ON)
    if [ "$where" = openmp ]; then options+=(-DSHARD_ENABLE_PNETCDF=ON); fi
  fi
  log=$(mktemp)
  if ! inside cmake -S "$here" -B "$build" "${options[@]}" "$@" >"$log" 2>&1; then
    cat "$log"
    rm -f "$log"
    return 1
  fi
  rm -f "$log"
}
on() { if [ -n "$1" ]; then echo ON; else echo OFF; fi; }

build() { inside cmake --build "$1" -j "${SHARD_JOBS:-$(nproc)}" "${@:2}"; }
