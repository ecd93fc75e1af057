//! `.ci/needs`: whether it finds libclang exactly where the build does.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

/// Whether the check finds libclang on a machine with these files and no package manager, with this `LIBCLANG_PATH`.
fn is_found(files: &[&str], libclang_path: Option<&str>) -> bool {
    let (root, empty) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for file in files {
        let path = root.path().join(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, "").unwrap();
    }
    // A compiler that accepts every option.
    let compiler = root.path().join("c++");
    std::fs::write(&compiler, "#!/bin/bash\nwhile read -r; do :; done\n").unwrap();
    std::fs::set_permissions(&compiler, Permissions::from_mode(0o700)).unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join(".ci/needs");
    let mut needs = Command::new("/bin/bash");
    // The search path is empty: no apt-get installs missing packages, and no llvm-config of this machine is found.
    needs.arg(script).env_clear().env("PATH", empty.path()).env("ROOT", root.path()).env("CXX", compiler);
    if let Some(path) = libclang_path {
        needs.env("LIBCLANG_PATH", if path.is_empty() { path.into() } else { root.path().join(path) });
    }
    let output = needs.output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    let missing = said.starts_with("Missing, by the names of Debian's packages: libclang-dev.\n");
    match output.status.code() {
        Some(0) if said.is_empty() => true,
        Some(1) if missing => false,
        code => panic!("{code:?}: {said}"),
    }
}

#[test]
fn libclang_is_found_under_the_names_that_the_build_looks_for() {
    for file in [
        "usr/lib/x86_64-linux-gnu/libclang-14.so.1",
        "usr/lib/x86_64-linux-gnu/libclang-14.so",
        "usr/lib/llvm-14/lib/libclang.so.1",
        "usr/lib64/libclang.so",
        "usr/local/lib/libclang.so",
    ] {
        assert!(is_found(&[file], None), "{file}");
    }
}

#[test]
fn other_libraries_of_clang_are_not_libclang() {
    for files in [
        &[][..],
        &["usr/lib/x86_64-linux-gnu/libclang-cpp.so"],
        &["usr/lib/llvm-14/lib/libclang-cpp.so.14", "usr/lib/x86_64-linux-gnu/libclang-cpp.so.14"],
        &["usr/lib/libclang.a", "opt/clang/lib/libclang.so"],
    ] {
        assert!(!is_found(files, None), "{files:?}");
    }
}

#[test]
fn libclang_path_is_the_only_place_searched_if_it_is_set() {
    let files = ["usr/lib/libclang.so", "mine/libclang-17.so.1", "mine/libother.so", "empty/readme"];
    for path in ["mine", "mine/libclang-17.so.1"] {
        assert!(is_found(&files, Some(path)), "{path}");
    }
    for path in ["empty", "missing", "mine/libother.so", ""] {
        assert!(!is_found(&files, Some(path)), "{path}");
    }
}
