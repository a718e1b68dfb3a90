//! Holds `include/mpi.h` and `weft::abi::common::constants` against the standard ABI's facts in `tests/abi/`.

mod abi;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use abi::{Constant, compile, constants, procedures, removed, run};

/// How the standard's type of a constant is written in `weft::abi::common::constants`: `None` for pointers, of any type.
fn rust_type(constant: &Constant) -> Option<&str> {
    match constant.kind.as_str() {
        "int" => Some("c_int"),
        "pointer" => None,
        handle_or_offset => Some(handle_or_offset),
    }
}

#[test]
fn rust_constants_have_the_values_and_types_of_the_standard() {
    let ours: BTreeMap<_, _> = weft::abi::common::constants::ALL
        .iter()
        .map(|c| (c.name, c))
        .collect();
    let standard = constants();
    for constant in &standard {
        let our = ours
            .get(constant.name.as_str())
            .unwrap_or_else(|| panic!("{} is missing", constant.name));
        assert_eq!(our.value, constant.value, "{}", constant.name);
        match rust_type(constant) {
            Some(rust_type) => assert_eq!(our.rust_type, rust_type, "{}", constant.name),
            None => assert!(
                our.rust_type.contains('*')
                    || our.rust_type == "Callback"
                    || our.rust_type.starts_with("MPI_T_"),
                "{} is no pointer: {}",
                constant.name,
                our.rust_type
            ),
        }
    }
    assert_eq!(
        ours.len(),
        standard.len(),
        "a constant that the standard does not have"
    );
}

#[test]
fn the_header_has_the_constants_of_the_standard() {
    let standard = constants();
    let mut source = String::from("#include <mpi.h>\n#include <stdio.h>\nint main(void)\n{\n");
    for Constant { name, kind, .. } in &standard {
        // The pointers of a conditional expression must agree in type, which holds a handle to its kind.
        match kind.as_str() {
            "int" => writeln!(source, "    {{ int v = {name}; printf(\"{name}\\t%d\\n\", v); }}"),
            "pointer" => writeln!(source, "    printf(\"{name}\\t%ld\\n\", (long)(intptr_t){name});"),
            "MPI_Offset" => writeln!(
                source,
                "    {{ MPI_Offset v = {name}; printf(\"{name}\\t%ld\\n\", (long)v); }}"
            ),
            handle => writeln!(
                source,
                "    {{ {handle} v = {name}; printf(\"{name}\\t%ld\\n\", (long)(intptr_t)v); }}"
            ),
        }
        .expect("a String takes everything");
    }
    source.push_str("    return 0;\n}\n");
    let program = compile("constants.c", &source, &["-std=c99", "-pedantic"]);
    let printed = run(&program);
    let expected: String = standard
        .iter()
        .map(|c| format!("{}\t{}\n", c.name, c.value))
        .collect();
    for (ours, standard) in printed.lines().zip(expected.lines()) {
        assert_eq!(ours, standard);
    }
    assert_eq!(printed, expected);
}

#[test]
fn integer_constants_serve_the_preprocessor_and_case_labels() {
    let mut source = String::from("#include <mpi.h>\n");
    for Constant { name, kind, .. } in constants() {
        if kind == "int" && !name.starts_with("MPI_T_CB_") && !name.starts_with("MPI_T_SOURCE_") {
            writeln!(
                source,
                "#if !defined({name}) || ({name}) + 0 != {name}\n#error {name}\n#endif"
            )
            .expect("a String takes everything");
        }
    }
    source.push_str(
        "int main(void)\n{\n    switch (0) { case MPI_ERR_TRUNCATE: case MPI_SUCCESS: return 0; }\n    return 1;\n}\n",
    );
    run(&compile("integers.c", &source, &["-std=c99", "-pedantic"]));
}

#[test]
fn the_header_declares_every_procedure_as_the_standard_does() {
    // A second declaration must be compatible with the first, or the compiler refuses it; taking the address shows
    // that there was a first, since the array stands before the second declarations.
    let mut addresses = String::new();
    let mut again = String::new();
    for procedure in procedures().into_iter().chain(removed()) {
        for prefix in ["", "P"] {
            writeln!(addresses, "    (any *){prefix}{},", procedure.name).expect("a String takes everything");
            writeln!(
                again,
                "{} {prefix}{}({});",
                procedure.returns, procedure.name, procedure.parameters
            )
            .expect("a String takes everything");
        }
    }
    let source = format!(
        "#include <mpi.h>\ntypedef void any(void);\nextern any *all[];\nany *all[] = {{\n{addresses}}};\n{again}"
    );
    let flags = [
        "-std=c99",
        "-Wno-pedantic",
        "-Wno-cast-function-type",
        "-Wno-deprecated-declarations",
        "-c",
    ];
    compile("procedures.c", &source, &flags);
    let cxx = source.replacen(
        "\ntypedef void any(void);",
        "\nextern \"C\" {\ntypedef void any(void);",
        1,
    ) + "}\n";
    compile(
        "procedures.cc",
        &cxx,
        &[
            "-std=c++11",
            "-Wno-cast-function-type",
            "-Wno-deprecated-declarations",
            "-c",
        ],
    );
}

#[test]
fn programs_of_every_dialect_compile_without_warnings() {
    let source = r#"
#include <mpi.h>

static void operation(void *in, void *inout, int *len, MPI_Datatype *type)
{
    (void)in; (void)inout; (void)len; (void)type;
}

int first(int argc, char **argv);
int first(int argc, char **argv)
{
    MPI_Status status;
    MPI_Comm comm;
    MPI_Op op;
    MPI_Aint address;
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Op_create(operation, 1, &op);
    MPI_Get_address(&rank, &address);
    MPI_Recv(MPI_BOTTOM, 0, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &status);
    MPI_Recv(MPI_BOTTOM, 0, MPI_INT, MPI_PROC_NULL, 0, comm, MPI_STATUS_IGNORE);
    MPI_Pcontrol(1, "level", 2);
    MPI_Finalize();
    return status.MPI_SOURCE == rank;
}
"#;
    for dialect in ["c89", "c99", "c11", "c17"] {
        let flags = [
            &format!("-std={dialect}"),
            "-pedantic",
            "-Wstrict-prototypes",
            "-c",
        ];
        compile(&format!("dialect-{dialect}.c"), source, &flags);
    }
    for dialect in ["c++98", "c++11", "c++17", "c++20"] {
        compile(
            &format!("dialect-{dialect}.cc"),
            source,
            &[&format!("-std={dialect}"), "-pedantic", "-c"],
        );
    }
}

/// The names that the standard's ABI lacks and programs use (LAMMPS and rsmpi: Fortran's handles; HPL: the removed procedures).
#[test]
fn the_header_has_what_programs_use_beyond_the_abi() {
    let mut source = String::from("#include <mpi.h>\n");
    let kinds = [
        ("Comm", "MPI_Comm"),
        ("Errhandler", "MPI_Errhandler"),
        ("File", "MPI_File"),
        ("Group", "MPI_Group"),
        ("Info", "MPI_Info"),
        ("Message", "MPI_Message"),
        ("Op", "MPI_Op"),
        ("Request", "MPI_Request"),
        ("Session", "MPI_Session"),
        ("Type", "MPI_Datatype"),
        ("Win", "MPI_Win"),
    ];
    for (kind, handle) in kinds {
        for prefix in ["", "P"] {
            // In an expression, and as the address of a function.
            writeln!(
                source,
                "extern {handle} ({prefix}first_{kind})({handle} handle);\n\
                 {handle} ({prefix}first_{kind})({handle} handle)\n{{\n    \
                 MPI_Fint (*to)({handle}) = {prefix}MPI_{kind}_c2f;\n    \
                 return to(handle) == {prefix}MPI_{kind}_c2f(handle) ? {prefix}MPI_{kind}_f2c(to(handle)) : handle;\n}}"
            )
            .expect("a String takes everything");
        }
    }
    source.push_str(
        r#"
extern int second(void);
int second(void)
{
    MPI_Fint fortran[MPI_F_STATUS_SIZE];
    MPI_Status status, back;
    status.MPI_SOURCE = 3;
    status.MPI_TAG = 5;
    status.MPI_ERROR = MPI_SUCCESS;
    if (MPI_Status_c2f(&status, fortran) != MPI_SUCCESS || MPI_Status_f2c(fortran, &back) != MPI_SUCCESS)
        return 1;
    return fortran[MPI_F_SOURCE] + fortran[MPI_F_TAG] + back.MPI_TAG;
}
extern int (*conversions(int which))(const MPI_Status *, MPI_F08_status *);
int (*conversions(int which))(const MPI_Status *, MPI_F08_status *)
{
    return which ? MPI_Status_c2f08 : PMPI_Status_c2f08;
}
"#,
    );
    for dialect in ["c89", "c99", "c17"] {
        let flags = [&format!("-std={dialect}"), "-pedantic", "-O2", "-c"];
        compile(&format!("beyond-{dialect}.c"), &source, &flags);
    }
    for dialect in ["c++98", "c++20"] {
        let flags = [&format!("-std={dialect}"), "-pedantic", "-O2", "-c"];
        compile(&format!("beyond-{dialect}.cc"), &source, &flags);
    }
    // The compiler says what to use instead, wherever a removed procedure is called.
    for procedure in removed() {
        let call = format!(
            "#include <mpi.h>\nvoid *a(void);\nvoid *a(void) {{ return (void *){}; }}\n",
            procedure.name
        );
        let said = abi::refused("removed.c", &call, &["-c"]);
        assert!(said.contains("MPI 3.0: use MPI_"), "{}: {said}", procedure.name);
    }
}

/// A program that looks at what C knows of Fortran's statuses. `theirs`, in a library, is the address that Fortran has.
const STATUSES: &str = r#"
#include <mpi.h>
#include <stdio.h>
#include <string.h>

int *theirs(int all) __attribute__((weak));

#define CHECK(condition) do { if (!(condition)) { printf("line %d: %s\n", __LINE__, #condition); return 1; } } while (0)

int main(void)
{
    MPI_Fint *one = MPI_F_STATUS_IGNORE, *all = MPI_F_STATUSES_IGNORE, f[MPI_F_STATUS_SIZE], g[MPI_F_STATUS_SIZE];
    MPI_F08_status *one08 = MPI_F08_STATUS_IGNORE, *all08 = MPI_F08_STATUSES_IGNORE, f08, g08;
    MPI_Status c, d;
    memset(&c, 0x5a, sizeof c);
    c.MPI_SOURCE = 1;
    c.MPI_TAG = 2;
    c.MPI_ERROR = 3;
    memset(&d, 0, sizeof d);
    memset(&f08, 0, sizeof f08);
    memset(&g08, 0, sizeof g08);
    CHECK(sizeof f == sizeof c && sizeof f08 == sizeof c);
    CHECK((void *)one == (void *)one08 && (void *)all == (void *)all08);
    if (theirs) {
        CHECK(one && all && one != all);
        CHECK(one == theirs(0) && all == theirs(1));
    } else {
        CHECK(!one && !all);
    }
    CHECK(MPI_Status_c2f(&c, f) == MPI_SUCCESS);
    CHECK(f[MPI_F_SOURCE] == 1 && f[MPI_F_TAG] == 2 && f[MPI_F_ERROR] == 3);
    CHECK(MPI_Status_f2f08(f, &f08) == MPI_SUCCESS && f08.MPI_TAG == 2);
    CHECK(MPI_Status_f082c(&f08, &d) == MPI_SUCCESS && memcmp(&c, &d, sizeof c) == 0);
    CHECK(MPI_Status_c2f08(&d, &g08) == MPI_SUCCESS);
    CHECK(PMPI_Status_f082f(&g08, g) == MPI_SUCCESS && memcmp(f, g, sizeof f) == 0);
    memset(&d, 0, sizeof d);
    CHECK(PMPI_Status_f2c(g, &d) == MPI_SUCCESS && memcmp(&c, &d, sizeof c) == 0);
    /* There is nothing to copy in what is ignored, or to. */
    CHECK(MPI_Status_f2c(MPI_F_STATUS_IGNORE, &d) == MPI_ERR_ARG);
    CHECK(MPI_Status_f2c(MPI_F_STATUSES_IGNORE, &d) == MPI_ERR_ARG);
    CHECK(MPI_Status_c2f(MPI_STATUS_IGNORE, f) == MPI_ERR_ARG);
    CHECK(MPI_Status_c2f(&c, MPI_F_STATUS_IGNORE) == MPI_ERR_ARG);
    CHECK(MPI_Status_f082c(MPI_F08_STATUS_IGNORE, &d) == MPI_ERR_ARG);
    CHECK(MPI_Status_c2f08(MPI_STATUSES_IGNORE, &f08) == MPI_ERR_ARG);
    CHECK(MPI_Status_f2f08(f, MPI_F08_STATUSES_IGNORE) == MPI_ERR_ARG);
    printf("right");
    return 0;
}
"#;

/// Fortran's library has the statuses to be ignored as COMMON blocks; C finds their addresses where it is there.
#[test]
fn c_knows_the_statuses_that_fortran_ignores() {
    let library = "int weft_status_ignore_[8], weft_statuses_ignore_[8];\nint *theirs(int all);\n\
                   int *theirs(int all) { return all ? weft_statuses_ignore_ : weft_status_ignore_; }\n";
    let library = compile("libstatuses.c", library, &["-shared", "-fPIC"]);
    let common = compile(
        "common.c",
        "int weft_status_ignore_[8], weft_statuses_ignore_[8];\n",
        &["-c", "-fcommon"],
    );
    let (library, common) = (library.to_string_lossy(), common.to_string_lossy());
    let rpath = format!("-Wl,-rpath,{}", abi::scratch().display());
    for (kind, code) in [("pie", ["-fPIE", "-pie"]), ("fixed", ["-fno-pie", "-no-pie"])] {
        let program = |name: &str, more: &[&str]| {
            let flags = [&code[..], &["-std=c99"], more].concat();
            run(&compile(&format!("statuses-{kind}-{name}.c"), STATUSES, &flags))
        };
        assert_eq!(program("without", &[]), "right", "{kind}");
        assert_eq!(
            program("library", &["-Wl,--no-as-needed", &library, &rpath]),
            "right",
            "{kind}"
        );
        // A program in Fortran has the COMMON blocks itself, too.
        let both = ["-Wl,--no-as-needed", &common, &library, &rpath];
        assert_eq!(program("both", &both), "right", "{kind}");
    }
}
