//! What the user's hints of a spawn say (MPI 5.0, section 11.8.4): the reserved keys, and a few of Open MPI's and MPICH's. Other
//! keys mean nothing here.

use std::path::PathBuf;

use weft::tools::pmi1::{ENV_INITIAL_ERRHANDLER, ENV_PARENT};
use weft::tools::{Hints, ProcessSet, Spawn, SpawnCommand};
use weft::{Class, Result, err};

use crate::cli::{App, INITIAL_ERRHANDLERS, Plan};
use crate::host_list::RANKS_MAX;

/// The environment variable by which programs of other MPIs know that they were spawned.
const SPAWNED: &str = "PMI_SPAWNED";

/// Makes the plan of the job that spawns the plan of the spawned job. The result has the reasons why single commands can't be started.
///
/// # Errors
/// `MPI_ERR_INFO_VALUE`: a value has no meaning. `MPI_ERR_SPAWN`: the commands together are too many, or contradict each other.
pub fn apply(plan: &mut Plan, spawn: &Spawn) -> Result<Vec<Option<String>>> {
    let template = plan.apps.first().cloned().unwrap_or_else(|| App::new("".into()));
    let mut template = App {
        hosts: Vec::new(),
        process_sets: Vec::new(),
        memory_alloc_kinds: None,
        initial_errhandler: None,
        search: None,
        ..template
    };
    let own = [ENV_PARENT, ENV_INITIAL_ERRHANDLER, SPAWNED];
    template
        .env
        .retain(|(name, _)| !own.iter().any(|own| name == own));
    // Programs of other MPIs find those that have spawned them in the key-value space.
    match spawn.port.is_empty() {
        true => template.env.push((SPAWNED.into(), "1".into())),
        false => template.env.push((ENV_PARENT.into(), spawn.port.clone().into())),
    }
    let mut apps = Vec::new();
    let mut errors = Vec::new();
    let mut host_file: Option<PathBuf> = None;
    for command in &spawn.commands {
        match app(&template, command) {
            Ok((app, file)) => {
                if let (Some(one), Some(other)) = (&host_file, &file)
                    && one != other
                {
                    return Err(err!(
                        Spawn,
                        "the commands name several files with hosts (key hostfile)"
                    ));
                }
                host_file = host_file.or(file);
                apps.push(app);
                errors.push(None);
            }
            Err(error) if error.class == Class::Spawn => {
                apps.push(template.clone());
                errors.push(Some(error.message.into_owned()));
            }
            Err(error) => return Err(error),
        }
    }
    let ranks: u64 = apps.iter().map(|app| u64::from(app.count)).sum();
    if ranks > u64::from(RANKS_MAX) {
        return Err(err!(Spawn, "{ranks} processes: at most {RANKS_MAX} are possible"));
    }
    if host_file.is_some() {
        plan.host_file = host_file;
        plan.hosts.clear();
    } else if plan.host_file.is_none() && apps.iter().any(|app| !app.hosts.is_empty()) {
        // These go before the hosts of the job that spawns, which are left for commands that name none.
        let others = std::mem::take(&mut plan.hosts);
        for app in apps.iter_mut().filter(|app| app.hosts.is_empty()) {
            app.hosts.clone_from(&others);
        }
    }
    plan.apps = apps;
    plan.fill = false;
    Ok(errors)
}

/// One program; and its file with hosts.
fn app(template: &App, command: &SpawnCommand) -> Result<(App, Option<PathBuf>)> {
    let hints = Hints::of(command)?;
    let mut app = App {
        count: hints.count(command.count)?,
        program: command.program.clone(),
        args: command.arguments.clone(),
        ..template.clone()
    };
    if let Some(hosts) = hints.text("host")? {
        app.hosts = vec![hosts.to_string()];
    }
    if let Some(wdir) = hints.find("wdir") {
        let wdir = PathBuf::from(wdir);
        app.wdir = Some(template.wdir.as_ref().map_or(wdir.clone(), |own| own.join(wdir)));
    }
    app.search = hints.find("path").map(Into::into);
    app.memory_alloc_kinds = hints.text("mpi_memory_alloc_kinds")?.map(str::to_string);
    if let Some(handler) = hints.text("mpi_initial_errhandler")? {
        if !INITIAL_ERRHANDLERS.contains(&handler) {
            return Err(err!(
                InfoValue,
                "mpi_initial_errhandler='{handler}': {} is expected",
                INITIAL_ERRHANDLERS.join(", ")
            ));
        }
        app.initial_errhandler = Some(handler.to_string());
    }
    if let Some(name) = hints.text("pset_name")? {
        let name = ProcessSet::name_of(name)
            .map_err(|error| err!(InfoValue, "pset_name='{name}': {}", error.message))?;
        app.process_sets = vec![name];
    }
    let variables = hints.environment()?.into_iter();
    app.env
        .extend(variables.map(|(name, value)| (name.into(), value.into())));
    Ok((app, hints.find("hostfile").map(PathBuf::from)))
}

#[cfg(test)]
mod tests {
    use std::ffi::{OsStr, OsString};
    use std::os::unix::ffi::OsStrExt as _;
    use std::path::Path;

    use super::*;
    use crate::cli::{Request, parse};
    use proptest::prelude::*;

    fn plan(line: &str) -> Plan {
        match parse(line.split_whitespace().map(OsString::from)) {
            Ok(Request::Run(plan)) => *plan,
            other => panic!("{other:?}"),
        }
    }

    fn command(count: u32, info: &[(&str, &str)]) -> SpawnCommand {
        SpawnCommand {
            program: "child".into(),
            arguments: vec!["a b".into()],
            count,
            info: info
                .iter()
                .map(|(key, value)| (key.to_string(), value.into()))
                .collect(),
        }
    }

    fn spawn(commands: Vec<SpawnCommand>) -> Spawn {
        Spawn {
            commands,
            port: "port".into(),
        }
    }

    #[test]
    fn keys_change_what_the_parent_has() {
        let mut made =
            plan("-hosts a,b -wdir /tmp -genv X 1 -initial-errhandler mpi_errors_return ./parent p");
        let info = [
            ("wdir", "sub"),
            ("path", "/one:/two"),
            ("soft", "1:9:2"),
            ("pset_name", "app://x"),
            ("mpi_initial_errhandler", "mpi_errors_abort"),
            ("mpi_memory_alloc_kinds", "system"),
            ("env", "A=1\nB=x=y\n"),
            ("host", "c:2"),
            ("unknown", "x"),
        ];
        let errors = apply(&mut made, &spawn(vec![command(4, &info), command(2, &[])])).unwrap();
        assert_eq!(errors, [None, None]);
        let [first, second] = &made.apps[..] else { panic!() };
        assert_eq!((first.count, second.count), (3, 2));
        assert_eq!(first.args, ["a b"]);
        assert_eq!(first.wdir.as_deref(), Some(Path::new("/tmp/sub")));
        assert_eq!(second.wdir.as_deref(), Some(Path::new("/tmp")));
        assert_eq!(
            (&first.hosts[..], &second.hosts[..]),
            (&["c:2".into()][..], &["a,b".into()][..])
        );
        assert!(made.hosts.is_empty());
        assert_eq!(first.search.as_deref(), Some("/one:/two".as_ref()));
        assert_eq!(first.process_sets, ["app://x"]);
        assert_eq!(first.memory_alloc_kinds.as_deref(), Some("system"));
        assert_eq!(first.initial_errhandler.as_deref(), Some("mpi_errors_abort"));
        assert_eq!(second.initial_errhandler, None);
        for (name, value) in [("X", "1"), ("A", "1"), ("B", "x=y"), (ENV_PARENT, "port")] {
            assert_eq!(first.environment(name), Some(value.into()), "{name}");
        }
        // What they spawn themselves finds them, and not those that have spawned them.
        apply(
            &mut made,
            &Spawn {
                port: "other".into(),
                ..spawn(vec![command(1, &[])])
            },
        )
        .unwrap();
        assert_eq!(made.apps[0].environment(ENV_PARENT), Some("other".into()));
        assert_eq!(
            made.apps[0]
                .env
                .iter()
                .filter(|(name, _)| name == ENV_PARENT)
                .count(),
            1
        );
    }

    #[test]
    fn a_file_has_more_keys() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keys");
        let path = path.to_str().unwrap();
        std::fs::write(path, "# more\n\nwdir = /usr\n soft=1,2\n").unwrap();
        let mut made = plan("./parent");
        let own = command(3, &[("file", path), ("soft", "0")]);
        assert_eq!(apply(&mut made, &spawn(vec![own])).unwrap(), [None]);
        assert_eq!(
            (made.apps[0].count, made.apps[0].wdir.as_deref()),
            (0, Some(Path::new("/usr")))
        );
        for (text, words) in [
            (&b"wdir\n"[..], "line 1"),
            (b"\xff", "line 1"),
            (b"\n=1", "line 2"),
        ] {
            std::fs::write(path, text).unwrap();
            let errors = apply(&mut plan("./p"), &spawn(vec![command(3, &[("file", path)])])).unwrap();
            assert!(errors[0].as_ref().unwrap().contains(words), "{errors:?}");
        }
        let none = command(1, &[("file", "/no/such")]);
        let errors = apply(&mut plan("./p"), &spawn(vec![command(1, &[]), none])).unwrap();
        assert!(errors[0].is_none() && errors[1].as_ref().unwrap().contains("/no/such"));
    }

    #[test]
    fn programs_arguments_and_paths_are_any_bytes() {
        let bytes = |bytes: &[u8]| OsStr::from_bytes(bytes).to_os_string();
        let mut command = command(1, &[]);
        (command.program, command.arguments) = (bytes(b"./\xff"), vec![bytes(b"\xfe=")]);
        command.info = vec![
            ("wdir".into(), bytes(b"/\xfd")),
            ("env".into(), bytes(b"A=\xfc\n\nB==")),
        ];
        let mut made = plan("./parent");
        assert_eq!(apply(&mut made, &spawn(vec![command.clone()])).unwrap(), [None]);
        let app = &made.apps[0];
        assert_eq!(
            (&app.program, &app.args[..]),
            (&command.program, &command.arguments[..])
        );
        assert_eq!(app.wdir.as_deref(), Some(Path::new(OsStr::from_bytes(b"/\xfd"))));
        assert_eq!(app.environment("A"), Some(bytes(b"\xfc")));
        assert_eq!(app.environment("B"), Some("=".into()));
        command.info = vec![("soft".into(), bytes(b"\xff"))];
        let error = apply(&mut made, &spawn(vec![command])).unwrap_err();
        assert_eq!(error.class, Class::InfoValue);
        assert!(error.message.contains("soft is no text"), "{error}");
    }

    #[test]
    fn wrong_values_are_named() {
        for (key, value, words) in [
            ("soft", "x", "'x'"),
            ("mpi_initial_errhandler", "none", "mpi_errors_return"),
            ("pset_name", "mpi://WORLD", "pset_name"),
            ("env", "A", "'A'"),
        ] {
            let error = apply(&mut plan("./p"), &spawn(vec![command(3, &[(key, value)])])).unwrap_err();
            assert_eq!(error.class, Class::InfoValue);
            assert!(error.message.contains(words), "{error}");
        }
        for (key, value, words) in [("arch", "pdp11", "pdp11"), ("soft", "9", "'9'")] {
            let errors = apply(&mut plan("./p"), &spawn(vec![command(3, &[(key, value)])])).unwrap();
            assert!(errors[0].as_ref().unwrap().contains(words), "{errors:?}");
        }
        let many = vec![command(u32::MAX, &[]), command(u32::MAX, &[])];
        assert_eq!(
            apply(&mut plan("./p"), &spawn(many)).unwrap_err().class,
            Class::Spawn
        );
    }

    proptest! {
        #[test]
        fn no_keys_make_it_panic(
            keys in prop::collection::vec((prop::sample::select(vec![
                "host", "wdir", "path", "soft", "env", "pset_name", "hostfile", "arch", "mpi_initial_errhandler",
            ]), "\\PC{0,12}"), 0..4),
            count: u32,
        ) {
            let info: Vec<(&str, &str)> = keys.iter().map(|(key, value)| (*key, value.as_str())).collect();
            let _ = apply(&mut plan("./p"), &spawn(vec![command(count, &info)]));
        }
    }
}
