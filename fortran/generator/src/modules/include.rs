//! The file `mpif.h` (section 19.1.4), for fixed and for free form: statements from column 7 to 72, none of them over two lines.

use std::fmt::Write;

use super::types::kinds;
use super::{PREDEFINED, VARIABLES, in_fortran, value};
use crate::table::{Returns, constants, procedures};

/// The whole file.
pub fn file() -> String {
    let mut out = String::from("! MPI 5.0 for Fortran without modules. Written by weft-fortran-modules.\n");
    let mut line = |text: &str| {
        debug_assert!(text.len() + 6 <= 72, "too long: {text}");
        writeln!(out, "      {text}").unwrap();
    };
    let mut parameter = |kind: &str, name: &str, value: &str| {
        line(&format!("{kind} {name}"));
        line(&format!("PARAMETER ({name}={value})"));
    };
    for (name, value) in kinds() {
        parameter("INTEGER", name, &value.to_string());
    }
    // Options that make INTEGER longer end in a division by zero, of a name that says why. The modules' interfaces refuse by themselves.
    parameter("INTEGER", "WEFT_NEEDS_INTEGER_OF_4_BYTES", "8/(8-KIND(0))");
    for name in ["MPI_SUBARRAYS_SUPPORTED", "MPI_ASYNC_PROTECTS_NONBLOCKING"] {
        parameter("LOGICAL", name, ".FALSE.");
    }
    for constant in constants().iter().filter(|constant| in_fortran(constant)) {
        let kind = match constant.kind {
            "MPI_Offset" => "INTEGER(KIND=MPI_OFFSET_KIND)",
            _ => "INTEGER",
        };
        parameter(kind, constant.name, &value(constant).to_string());
    }
    for (name, block) in VARIABLES {
        let declaration = match name {
            "MPI_STATUS_IGNORE" => "INTEGER MPI_STATUS_IGNORE(MPI_STATUS_SIZE)".to_owned(),
            "MPI_STATUSES_IGNORE" => "INTEGER MPI_STATUSES_IGNORE(MPI_STATUS_SIZE,1)".to_owned(),
            "MPI_ARGV_NULL" => "CHARACTER MPI_ARGV_NULL(1)".to_owned(),
            "MPI_ARGVS_NULL" => "CHARACTER MPI_ARGVS_NULL(1,1)".to_owned(),
            "MPI_ERRCODES_IGNORE" | "MPI_UNWEIGHTED" | "MPI_WEIGHTS_EMPTY" => format!("INTEGER {name}(1)"),
            _ => format!("INTEGER {name}"),
        };
        line(&declaration);
        line(&format!("COMMON /weft_{block}/ {name}"));
    }
    for (name, _) in PREDEFINED {
        line(&format!("EXTERNAL {name}"));
    }
    for procedure in procedures() {
        let kind = match procedure.returns {
            Returns::Double => "DOUBLE PRECISION",
            Returns::Address => "INTEGER(KIND=MPI_ADDRESS_KIND)",
            _ => continue,
        };
        for prefix in ["", "P"] {
            line(&format!("{kind} {prefix}{}", procedure.name));
            line(&format!("EXTERNAL {prefix}{}", procedure.name));
        }
    }
    out
}
