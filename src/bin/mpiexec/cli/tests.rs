use super::options::seconds;
use super::*;

fn request(line: &str) -> Result<Request, Failure> {
    parse(line.split_whitespace().map(OsString::from))
}

fn plan(line: &str) -> Plan {
    match request(line) {
        Ok(Request::Run(plan)) => *plan,
        other => panic!("{line}: {other:?}"),
    }
}

fn refusal(line: &str) -> String {
    let failure = request(line).expect_err(line);
    assert!(!failure.message.contains('\n'), "{}", failure.message);
    assert_ne!(failure.status, 0);
    failure.message
}

#[test]
fn the_number_of_ranks_has_many_spellings() {
    for option in [
        "-n 4", "-np 4", "--np 4", "-c 4", "--n 4", "-n4", "-np=4", "--np=4", "-n=4",
    ] {
        let plan = plan(&format!("{option} ./a -n 7 --np x"));
        assert_eq!(plan.apps[0].count, 4, "{option}");
        assert_eq!(plan.apps[0].args, ["-n", "7", "--np", "x"], "{option}");
    }
}

#[test]
fn the_program_takes_all_words_up_to_a_lone_colon() {
    let plan = plan("-n 1 ./a -l --help a:b : -np 2 -wdir /tmp ./b -- -x");
    assert_eq!(plan.apps[0].args, ["-l", "--help", "a:b"]);
    assert_eq!(plan.apps[1].args, ["--", "-x"]);
    assert_eq!(plan.apps[1].wdir.as_deref(), Some(std::path::Path::new("/tmp")));
    assert!(!plan.prefix);
}

#[test]
fn environment_options() {
    let plan = plan("-genv A 1 -env B -2 -x C=3=4 ./a : -x A=5 ./b");
    let text = |app: &App| {
        app.env
            .iter()
            .map(|(name, value)| format!("{}={} ", name.display(), value.display()))
            .collect::<String>()
    };
    assert_eq!(text(&plan.apps[0]), "A=1 B=-2 C=3=4 ");
    assert_eq!(text(&plan.apps[1]), "A=1 A=5 ");
}

#[test]
fn options_of_the_whole_job() {
    let plan = plan(
        "-l -bind-to core --map-by socket -report-bindings -timeout 2.5 -v -initial-errhandler mpi_errors_return -memory-alloc-kinds system ./a",
    );
    assert!(plan.prefix && plan.verbose && plan.report_bindings);
    assert_eq!((plan.bind, plan.map_by), (Bind::Core, MapBy::Socket));
    assert_eq!(plan.timeout, Some(Duration::from_millis(2500)));
    assert_eq!(
        plan.apps[0].initial_errhandler.as_deref(),
        Some("mpi_errors_return")
    );
    assert_eq!(plan.apps[0].memory_alloc_kinds.as_deref(), Some("system"));
}

#[test]
fn process_sets_are_named_by_programs() {
    let plan =
        plan("-n 2 -pset ocean -pset app://all ./a : -n 1 ./b : -n 3 --pset=app://all -pset app://all ./c");
    assert_eq!(
        ProcessSet::encode(&plan.process_sets()),
        "app://all=0-1,3-5 weft://ocean=0-1"
    );
    assert!(refusal("-pset mpi://mine ./a").contains("mpi://mine"));
    assert!(refusal("-pset app:// ./a").contains("app://"));
}

#[test]
fn hosts_are_a_list() {
    let plan = plan("-hosts a:2,b -H c -host d ./p : -host e ./q");
    assert_eq!(plan.hosts, ["a:2,b"]);
    assert_eq!(plan.apps[0].hosts, ["c", "d"]);
    assert_eq!(plan.apps[1].hosts, ["e"]);
    assert!(refusal("./a : -hosts x ./b").contains("hosts concerns the whole job"));
    assert!(refusal("-ppn 0 ./a").contains('0'));
    assert!(refusal("-ppn 2 --map-by ppr:3:node ./a").contains("contradict"));
}

#[test]
fn where_ranks_go_has_many_spellings() {
    let of = |option: &str| plan(&format!("{option} ./a"));
    assert_eq!(of("--map-by ppr:2:node").per_host, Some(2));
    assert_eq!(of("-N 3").per_host, Some(3));
    assert!(of("--map-by node").by_node && of("-bynode").by_node && of("-rr").by_node);
    assert_eq!(of("--map-by numa").map_by, MapBy::Numa);
    assert_eq!(of("-bind-to hwthread").bind, Bind::Hwthread);
    assert_eq!(of("--bind-to package").bind, Bind::Socket);
    assert!(of("--map-by slot:NOOVERSUBSCRIBE").no_oversubscribe);
    assert!(!of("--oversubscribe --allow-run-as-root").no_oversubscribe);
    for (option, words) in [
        ("--map-by ppr:2:socket", "ppr:N:node"),
        ("--map-by ppr:0:node", "number"),
        ("--map-by ppr", "ppr:N:node"),
        ("--map-by slot:PE=2", "'pe=2' is not supported"),
        ("--map-by board", "slot, core"),
        ("-usize 0", "SYSTEM"),
        ("-rmk moon", "user"),
    ] {
        let why = refusal(&format!("{option} ./a"));
        assert!(why.contains(words), "{option}: {why}");
    }
}

#[test]
fn the_environment_can_be_cut() {
    let of = |line: &str| {
        plan(line)
            .apps
            .iter()
            .map(|app| app.inherits.clone())
            .collect::<Vec<_>>()
    };
    let only = |names: &[&str]| Inherits::Only(names.iter().map(OsString::from).collect());
    assert_eq!(of("./a"), [Inherits::All]);
    assert_eq!(of("-genvnone ./a : -envall ./b"), [only(&[]), Inherits::All]);
    assert_eq!(
        of("-genvlist A,B ./a : -envnone ./b"),
        [only(&["A", "B"]), only(&[])]
    );
    assert_eq!(of("-envlist HOME ./a : ./b"), [only(&["HOME"]), Inherits::All]);
    assert!(refusal("-genvlist A,,B ./a").contains("name"));
    let cut = &plan("-genvnone -env A 1 ./a").apps[0];
    assert_eq!(
        (cut.environment("A"), cut.environment("PATH")),
        (Some("1".into()), None)
    );
    let named = plan("-genv A=1=2 -env B=3 -iface eth0 ./a : ./b");
    let interface = (OsString::from("WEFT_INTERFACE"), OsString::from("eth0"));
    assert!(named.apps.iter().all(|app| app.env.contains(&interface)));
    assert_eq!(named.apps[0].environment("A"), Some("1=2".into()));
    assert_eq!(named.apps[0].environment("B"), Some("3".into()));
}

#[test]
fn files_take_output() {
    let plan = plan("-outfile-pattern o.%r -errfile-pattern=e.%r ./a");
    assert!(plan.files.iter().flatten().all(|pattern| !pattern.copies) && plan.files[1].is_some());
    assert!(
        self::plan("--output-filename d ./a")
            .files
            .iter()
            .flatten()
            .all(|pattern| pattern.copies)
    );
    assert!(refusal("-outfile-pattern %y ./a").contains("'%y'"));
    assert!(refusal("-outfile-pattern o --output-filename d ./a").contains("combined"));
}

#[test]
fn a_file_has_the_rest_of_the_command_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config");
    std::fs::write(&path, "-n 2 ./a x\n# more\n-n 3 ./b\n").unwrap();
    let shown = path.display();
    let plan = plan(&format!("-l -configfile {shown}"));
    assert!(plan.prefix);
    assert_eq!(plan.apps.iter().map(|app| app.count).collect::<Vec<_>>(), [2, 3]);
    assert!(refusal(&format!("-configfile {shown} ./a")).contains("end of the command line"));
    assert!(refusal("-configfile /no/such/file").contains("/no/such/file"));
    std::fs::write(&path, format!("-configfile {shown}\n")).unwrap();
    assert!(refusal(&format!("-configfile {shown}")).contains("another"));
}

#[test]
fn options_of_others_are_told_what_to_use() {
    for (line, words) in [
        ("--mca btl self,tcp ./a", "WEFT_PROVIDER"),
        ("-rankmap 0,1 ./a", "--map-by"),
        ("--prefix /opt ./a", "own path"),
        ("--rank-by node ./a", "--bind-to"),
        ("-gdb ./a", "debugger"),
        ("-disable-auto-cleanup ./a", "MPI_Finalize"),
    ] {
        let why = refusal(line);
        assert!(why.contains(words) && !why.contains("unknown"), "{line}: {why}");
    }
}

#[test]
fn mistakes_are_told_in_one_line() {
    assert!(refusal("-n 0 ./a").contains('0'));
    assert!(refusal("-n four ./a").contains("four"));
    assert!(refusal("-n -1 ./a").contains("-1"));
    assert!(refusal("-n 99999999999 ./a").contains("99999999999"));
    assert!(refusal("").contains("no program"));
    assert!(refusal("-n 2").contains("no program"));
    assert!(refusal("./a :").contains("no program number 2"));
    assert!(refusal("-bogus ./a").contains("bogus"));
    let words = refusal("-timeout 0 ./a");
    assert!(
        words.contains("seconds") && !words.contains("For more") && !words.ends_with(' '),
        "{words}"
    );
    assert!(refusal("-timeout nan ./a").contains("seconds"));
    assert!(refusal("-bind-to moon ./a").contains("moon"));
    assert!(refusal("./a : -timeout 3 ./b").contains("timeout"));
    assert!(refusal("./a : -report-bindings ./b").contains("report-bindings"));
    assert!(refusal("-x =3 ./a").contains("name"));
    assert!(refusal("-initial-errhandler mpi_errors ./a").contains("mpi_errors_return"));
    assert!(refusal("-n 65536 ./a : ./b").contains("65537"));
}

#[test]
fn help_and_version_are_printed() {
    assert!(
        matches!(request("--help"), Ok(Request::Print(text)) if text.contains("-n 1 ./manager : -n 7 ./worker"))
    );
    assert!(matches!(request("-help"), Ok(Request::Print(_))));
    assert!(
        matches!(request("--version"), Ok(Request::Print(text)) if text.contains(env!("CARGO_PKG_VERSION")))
    );
}

#[test]
fn which_program_is_missing_is_told_where_there_are_several() {
    assert!(refusal("-n 2").contains("no program given"));
    assert!(refusal("-n 2 : ./b").contains("no program number 1 given"));
    assert!(refusal("./a : -n 2").contains("no program number 2 given"));
}

#[test]
fn a_time_limit_is_above_0_and_no_longer_than_a_year() {
    for (text, expected) in [("0.5", 0.5), ("100000", 1e5), ("31622400", 31_622_400.0)] {
        assert_eq!(seconds(text).map(|limit| limit.as_secs_f64()), Ok(expected));
    }
    for text in ["0", "-1", "31622401", "1e300", "nan", "inf", "x", ""] {
        assert!(seconds(text).is_err(), "{text}");
    }
}

#[test]
fn as_many_ranks_as_are_possible_and_no_more() {
    assert_eq!(plan("-n 65536 ./a").apps[0].count, RANKS_MAX);
    assert_eq!(plan("-n 65535 ./a : ./b").apps.len(), 2);
    assert!(refusal("-n 65536 ./a : ./b").contains("65537 ranks"));
    assert!(refusal("-n 65537 ./a").contains("65537"));
}

#[test]
fn an_unknown_option_is_told_without_advice_that_leads_nowhere() {
    let words = refusal("--no-such-option ./a");
    assert!(
        words.contains("--no-such-option") && !words.contains("For more"),
        "{words}"
    );
    assert!(!words.contains("  "), "no empty line is left: {words}");
}
