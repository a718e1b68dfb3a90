//! Options of other `mpiexec`s: those that mean one of Weft's, and for those without an equal what to use instead.

/// Options that stand for others, or for nothing where Weft does it anyway.
const SYNONYMS: [(&str, &[&str]); 9] = [
    ("pernode", &["--ppn", "1"]),
    ("bynode", &["--map-by", "node"]),
    ("rr", &["--map-by", "node"]),
    ("byslot", &["--map-by", "slot"]),
    ("bycore", &["--map-by", "core"]),
    ("oversubscribe", &[]),
    ("allow-run-as-root", &[]),
    ("enable-x", &[]),
    ("disable-x", &[]),
];

const MCA: &str = "is Open MPI's: Weft has no MCA parameters; its settings are variables such as WEFT_PROVIDER and \
                   WEFT_INTERFACE (-x NAME=VALUE; weft-info lists them)";
const PLACE: &str =
    "is not supported: -hosts, -f, -ppn, --map-by and -host for each program say where ranks go";
const BIND: &str = "is not supported: --bind-to and --map-by say where ranks are bound";
const DEBUG: &str =
    "is not supported: start the debugger as the program, such as 'mpiexec -n 2 xterm -e gdb ./a'";
const PATHS: &str =
    "is not needed: other hosts run this mpiexec by its own path and find the library beside it";
const OUTPUT: &str = "is not supported: -l, -outfile-pattern and --output-filename change where output goes";
const SHOW: &str =
    "is not supported: --dry-run shows hosts, ranks and commands, --report-bindings the bindings";
const FAULTS: &str = "is not supported: the end of a rank without MPI_Finalize always ends the job";
const ENGINE: &str =
    "is not supported: run under that engine itself (srun, prterun), which Weft's programs understand";

/// What to use instead of an option.
const ADVICE: [(&str, &str); 57] = [
    ("mca", MCA),
    ("gmca", MCA),
    ("omca", MCA),
    ("prtemca", MCA),
    ("pmixmca", MCA),
    ("gpmixmca", MCA),
    ("gprtemca", MCA),
    ("tune", MCA),
    ("am", MCA),
    ("rankmap", PLACE),
    ("rankfile", PLACE),
    ("rf", PLACE),
    ("nolocal", PLACE),
    ("default-hostfile", PLACE),
    ("add-host", PLACE),
    ("add-hostfile", PLACE),
    ("order-nodes", PLACE),
    ("grr", PLACE),
    ("hosts-group", PLACE),
    ("localhost", PLACE),
    ("soft", "is not supported: -n N is the number of ranks"),
    ("arch", PLACE),
    (
        "path",
        "is not supported: name the program by its path, or set PATH by -x PATH=...",
    ),
    (
        "file",
        "is not supported: -configfile FILE has programs and options",
    ),
    ("rank-by", BIND),
    ("cpu-set", BIND),
    ("cpu-list", BIND),
    ("cpus-per-proc", BIND),
    ("cpus-per-rank", BIND),
    ("npersocket", BIND),
    ("use-hwthread-cpus", BIND),
    ("membind", BIND),
    ("topolib", BIND),
    ("gpus-per-proc", BIND),
    ("gdb", DEBUG),
    ("gdba", DEBUG),
    ("tv", DEBUG),
    ("xterm", DEBUG),
    ("debug", DEBUG),
    ("prefix", PATHS),
    ("noprefix", PATHS),
    (
        "preload-binary",
        "is not supported: the program has to be on all hosts, at the same path",
    ),
    ("preload-files", "is not supported: files have to be on all hosts"),
    ("timestamp-output", OUTPUT),
    ("merge-stderr-to-stdout", OUTPUT),
    ("output", OUTPUT),
    ("prepend-pattern", OUTPUT),
    ("stdin", "is not supported: standard input goes to rank 0"),
    ("s", "is not supported: standard input goes to rank 0"),
    ("display", SHOW),
    ("display-map", SHOW),
    ("display-allocation", SHOW),
    ("disable-auto-cleanup", FAULTS),
    ("enable-recovery", FAULTS),
    ("continuous", FAULTS),
    ("dvm", ENGINE),
    ("personality", ENGINE),
];

/// The words that an option stands for.
pub fn synonym(name: &str) -> Option<&'static [&'static str]> {
    SYNONYMS
        .iter()
        .find(|(own, _)| *own == name)
        .map(|(_, words)| *words)
}

/// The sentence after the name of an option that others have.
pub fn advice(name: &str) -> Option<&'static str> {
    ADVICE
        .iter()
        .find(|(own, _)| *own == name)
        .map(|(_, advice)| *advice)
}
