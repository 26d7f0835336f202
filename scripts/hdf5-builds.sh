# shellcheck shell=bash
# How HDF5 is built from its sources. Sourced after env.sh, by the scripts that need such a build; PYTHON and CACHE are set.

# Sets TOOLS, the folder with cmake and ninja from PyPI.
need_cmake() {
    local environment
    environment=$(environment_of cmake tests/requirements-hdf5-builds.txt)
    if [[ ! -e $environment/ready ]]; then
        (
            lock cmake
            if [[ -e $environment/ready ]]; then exit; fi
            say "installing cmake from PyPI into $environment"
            rm -rf "$environment"
            "$PYTHON" -m venv "$environment"
            install_requirements "$environment" tests/requirements-hdf5-builds.txt
            touch "$environment/ready"
        )
    fi
    TOOLS=$environment/bin
}

# Unpacks the sources of the crate $1 in the version $2 into the folder $3; cargo fetches and checks them.
fetch_crate() {
    local name=$1 version=$2 folder=$3 manifest=$3.manifest
    say "fetching $name $version by cargo"
    mkdir -p "$manifest/src"
    touch "$manifest/src/lib.rs"
    printf '[package]\nname = "sources"\nedition = "2021"\n[dependencies]\n%s = "=%s"\n[workspace]\n' "$name" "$version" >"$manifest/Cargo.toml"
    cargo vendor --quiet --versioned-dirs --manifest-path "$manifest/Cargo.toml" "$manifest/vendor" >/dev/null ||
        die "cargo cannot fetch $name $version"
    mv "$manifest/vendor/$name-$version" "$folder"
    rm -rf "$manifest"
}

# Fetches $1, a path below the mirror that apt uses, whose SHA-256 is $2, and unpacks it into the folder $3, without its topmost folder.
fetch_debian_source() {
    local path=$1 digest=$2 folder=$3 archive=$3.archive mirror
    mirror=${FOREBAY_DEBIAN_MIRROR:-$(apt-get indextargets --format "\$(SITE)" 2>/dev/null | grep '/debian/*$' | sort -u | sed -n 1p)}
    [[ -n $mirror ]] || die "apt knows no Debian mirror: set FOREBAY_DEBIAN_MIRROR"
    say "fetching $mirror/$path"
    curl --fail --silent --show-error --location --retry 5 --output "$archive" "$mirror/$path" || die "cannot fetch $mirror/$path"
    printf '%s  %s\n' "$digest" "$archive" | sha256sum --check --quiet || die "$mirror/$path is not the archive whose SHA-256 is $digest"
    mkdir -p "$folder"
    tar --extract --gzip --file "$archive" --directory "$folder" --strip-components 1
    rm "$archive"
}

# Configures the sources $1 in the folder $2 with the options $3…; all libraries are shared, nothing that is not asked for is built.
configure_hdf5() {
    local sources=$1 build=$2
    shift 2
    "$TOOLS/cmake" -S "$sources" -B "$build" -G Ninja -DCMAKE_MAKE_PROGRAM="$TOOLS/ninja" -DCMAKE_BUILD_TYPE=Release \
        -DBUILD_SHARED_LIBS=ON -DBUILD_STATIC_LIBS=OFF -DHDF5_BUILD_EXAMPLES=OFF -DHDF5_BUILD_TOOLS=OFF -DHDF5_BUILD_CPP_LIB=OFF \
        -DHDF5_BUILD_FORTRAN=OFF -DHDF5_BUILD_JAVA=OFF -DHDF5_ENABLE_SZIP_SUPPORT=OFF -DHDF5_ENABLE_THREADSAFE=OFF "$@" \
        >"$build.log" 2>&1 || { tail -n 30 "$build.log" >&2; die "HDF5 cannot be configured; all it said is in $build.log"; }
}

# Builds $2… in the folder $1.
build_hdf5() {
    local build=$1
    shift
    nice -n 10 "$TOOLS/ninja" -C "$build" "$@" >>"$build.log" 2>&1 ||
        { tail -n 30 "$build.log" >&2; die "HDF5 cannot be built; all it said is in $build.log"; }
}
