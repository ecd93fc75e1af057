//! The generated descriptions of the command line: shell completions and man pages.

use std::fs;
use std::io::Write;
use std::process::{Command, Stdio};

use super::Run;

fn rowdrive(arguments: &[&str]) -> Run {
    Run::from_output(Command::new(env!("CARGO_BIN_EXE_rowdrive")).args(arguments).output().unwrap())
}

/// The subcommands that a help text lists.
fn subcommands(arguments: &[&str]) -> Vec<String> {
    let help = rowdrive(arguments);
    help.is_done();
    let named = help.out.lines().filter_map(|line| line.strip_prefix("  ")?.split(' ').next().map(str::to_owned));
    named.filter(|name| !name.is_empty() && !name.starts_with('-') && name != "help").collect()
}

#[test]
fn every_shell_completes_every_subcommand() {
    let subcommands = subcommands(&["--help"]);
    assert!(subcommands.len() > 10, "{subcommands:?}");
    for (shell, own) in [
        ("bash", "complete -F _rowdrive"),
        ("elvish", "edit:completion:arg-completer[rowdrive]"),
        ("fish", "complete -c rowdrive"),
        ("powershell", "Register-ArgumentCompleter"),
        ("zsh", "#compdef rowdrive"),
    ] {
        let script = rowdrive(&["completions", shell]);
        script.is_done();
        assert!(script.out.contains(own), "{own} is missing for {shell}");
        for name in subcommands.iter().map(String::as_str).chain(["status", "print-config", "body-idle-timeout"]) {
            assert!(script.out.contains(name), "{name} is missing for {shell}");
        }
    }
    assert_eq!(rowdrive(&["completions", "abacus"]).code, Some(2));
}

#[test]
fn bash_loads_its_completions_and_uses_them() {
    let script = rowdrive(&["completions", "bash"]).out;
    // Bash parses the script without running it, then completes `rowdrive serve --max`, as after Tab.
    let asked =
        "COMP_WORDS=(rowdrive serve --max); COMP_CWORD=2; _rowdrive rowdrive --max serve; echo \"${COMPREPLY[@]}\"";
    for (flag, script, output) in [("-n", script.clone(), ""), ("-s", format!("{script}\n{asked}\n"), "--max-body\n")] {
        let mut bash = Command::new("bash");
        bash.arg(flag).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut bash = bash.spawn().unwrap();
        bash.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
        let run = Run::from_output(bash.wait_with_output().unwrap());
        run.is_done();
        assert_eq!((run.out.as_str(), run.err.as_str()), (output, ""), "{flag}");
    }
}

#[test]
fn there_is_a_man_page_for_every_subcommand() {
    let folder = tempfile::tempdir().unwrap();
    let into = folder.path().join("new/man1");
    rowdrive(&["man", into.to_str().unwrap()]).is_done();
    let mut expected: Vec<_> = subcommands(&["--help"]).iter().map(|name| format!("rowdrive-{name}.1")).collect();
    for of in ["grant", "migrate", "share", "token", "user"] {
        expected.extend(subcommands(&[of, "--help"]).iter().map(|name| format!("rowdrive-{of}-{name}.1")));
    }
    expected.push("rowdrive.1".to_owned());
    expected.sort();
    let mut names: Vec<_> =
        fs::read_dir(&into).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    assert_eq!(names, expected);
    for name in &names {
        let page = fs::read_to_string(into.join(name)).unwrap();
        for part in [&format!("\n.TH {} 1 ", name.trim_end_matches(".1")), "\n.SH NAME\n", "\n.SH SYNOPSIS\n"] {
            assert!(page.contains(part), "{part:?} is missing in {name}: {page}");
        }
    }
    let serve = fs::read_to_string(into.join("rowdrive-serve.1")).unwrap();
    assert!(serve.contains("\\-\\-max\\-body") && serve.contains("ROWDRIVE_MAX_BODY"), "{serve}");

    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    let refused = rowdrive(&["man", file.to_str().unwrap()]);
    assert_eq!(refused.code, Some(3), "{refused:?}");
}
