#!/usr/bin/env bash
# HDF5's own API tests (h5_api_test of HDF5 1.14.5), natively and through the plug-ins: hdf5-api-test.sh [ARGS of tests/hdf5/suites.py]
# Built once, in the cache folder. With --build, it is only built, and the program's path printed.
set -euo pipefail
# shellcheck source=scripts/env.sh
source "$(dirname "${BASH_SOURCE[0]}")/env.sh"
# shellcheck source=scripts/hdf5-builds.sh
source "$ROOT/scripts/hdf5-builds.sh"
use_tree "$@"

# The source package of Debian 13; wheels and crates bring no tests.
SOURCE=pool/main/h/hdf5/hdf5_1.14.5+repack.orig.tar.gz
DIGEST=71cdb04c151ef4e8a7f88907adfc4f3b75afd44e96fbd55775e1c9d7c4e7c112

make_api_test() {
    local work=$folder.work
    rm -rf "$folder" "$work"
    mkdir -p "$work"
    need_cmake
    fetch_debian_source "$SOURCE" "$DIGEST" "$work/sources"
    say "building HDF5 1.14.5 and its API tests, which takes some minutes; the log is $work/build.log"
    configure_hdf5 "$work/sources" "$work/build" -DBUILD_TESTING=ON -DHDF5_TEST_API=ON -DHDF5_BUILD_HL_LIB=OFF \
        -DHDF5_ENABLE_Z_LIB_SUPPORT=ON -DHDF5_ENABLE_PLUGIN_SUPPORT=OFF -DCMAKE_POLICY_VERSION_MINIMUM=3.5 \
        -DCMAKE_BUILD_RPATH_USE_ORIGIN=ON
    build_hdf5 "$work/build" h5_api_test
    mkdir "$folder"
    cp -a "$work"/build/bin/h5_api_test "$work"/build/bin/libhdf5*.so* "$folder"
    rm -rf "$work"
}

use_cache
find_python
folder=$CACHE/hdf5-api-test-$( { declare -f make_api_test configure_hdf5 build_hdf5; printf '%s' "$DIGEST"; } | sha256sum | cut -c1-16)
if [[ ! -e $folder/ready ]]; then
    (
        lock hdf5-api-test
        if [[ -e $folder/ready ]]; then exit; fi
        make_api_test
        touch "$folder/ready"
    )
fi
if [[ ${1:-} == --build ]]; then
    printf '%s\n' "$folder/h5_api_test"
    exit
fi
use_setup
"$FOREBAY_PYTHON" "$ROOT/tests/hdf5/suites.py" --plugins "$("$ROOT/scripts/plugins.sh")" --api-test "$folder/h5_api_test" --only api-test "$@"
