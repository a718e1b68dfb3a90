//! Basic elements: what the leaves of every type map are made of.
//!
//! A basic element has a *category*, which is its kind in the language and determines the reductions that it takes part
//! in (MPI 5.0, section 6.9.2), and a *representation*, which is the meaning of its bytes. `MPI_INT`, `MPI_INT32_T` and
//! `MPI_INTEGER` share a representation; `MPI_BYTE` and `MPI_C_BOOL` share one too and reduce differently.

/// The groups of section 6.9.2, and what it does not mention.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Category {
    /// "C integer".
    CInteger,
    /// "Fortran integer".
    FortranInteger,
    /// "Floating point".
    Floating,
    /// "Logical", the C and C++ booleans among them.
    Logical,
    /// "Complex".
    Complex,
    /// "Byte": `MPI_BYTE` alone.
    Byte,
    /// "Multi-language types": `MPI_AINT`, `MPI_OFFSET`, `MPI_COUNT`.
    MultiLanguage,
    /// C's `char`: the standard reduces `signed char` and `unsigned char` only. Programs reduce `char` too (the OSU benchmarks do),
    /// and other libraries take it for the integer that it is to C.
    Char,
    /// Other printable characters; they take part in no reduction.
    Character,
    /// `MPI_PACKED`.
    Packed,
}

/// The meaning of the bytes of a basic element.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs)] // The names say it.
pub enum Representation {
    I8,
    U8,
    I16,
    U16,
    I32,
    U32,
    I64,
    U64,
    I128,
    /// A Fortran `LOGICAL` of so many bits: what its bytes mean depends on the compiler (`data::fortran`).
    L8,
    L16,
    L32,
    L64,
    L128,
    /// IEEE binary16.
    F16,
    F32,
    F64,
    /// C's `long double`: on x86-64 the 80-bit format of the x87 in 16 bytes, elsewhere IEEE binary128.
    LongDouble,
    /// IEEE binary128.
    F128,
    ComplexF16,
    ComplexF32,
    ComplexF64,
    ComplexLongDouble,
    ComplexF128,
}

/// Where `long double` is something else (a `double`, or two of them) the table above has to be changed.
#[cfg(not(all(
    target_os = "linux",
    any(
        target_arch = "x86_64",
        target_arch = "aarch64",
        target_arch = "riscv64",
        target_arch = "loongarch64",
        target_arch = "s390x"
    )
)))]
compile_error!("what C's `long double` is on this target is not known: see `Representation::LongDouble`");

impl Representation {
    /// All, in their order.
    pub(in crate::data) const ALL: [Representation; 24] = {
        use Representation::*;
        [
            I8,
            U8,
            I16,
            U16,
            I32,
            U32,
            I64,
            U64,
            I128,
            L8,
            L16,
            L32,
            L64,
            L128,
            F16,
            F32,
            F64,
            LongDouble,
            F128,
            ComplexF16,
            ComplexF32,
            ComplexF64,
            ComplexLongDouble,
            ComplexF128,
        ]
    };

    /// Bytes that one element occupies.
    pub const fn size(self) -> u64 {
        use Representation::*;
        match self {
            I8 | U8 | L8 => 1,
            I16 | U16 | L16 | F16 => 2,
            I32 | U32 | L32 | F32 | ComplexF16 => 4,
            I64 | U64 | L64 | F64 | ComplexF32 => 8,
            I128 | L128 | LongDouble | F128 | ComplexF64 => 16,
            ComplexLongDouble | ComplexF128 => 32,
        }
    }

    /// The alignment that a C compiler gives it inside a structure, in bytes.
    pub const fn align(self) -> u64 {
        use Representation::*;
        match self {
            ComplexF16 | ComplexF32 | ComplexF64 | ComplexLongDouble | ComplexF128 => self.size() / 2,
            _ => self.size(),
        }
    }
}

/// One basic element.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Basic {
    /// What it counts as in reductions.
    pub category: Category,
    /// What its bytes are.
    pub representation: Representation,
    /// Bytes in the `external32` representation (section 14.5.2), which differs for `long` and `wchar_t`, and for Fortran's default
    /// kinds where they have other sizes than usual.
    pub external_size: u8,
}

impl Basic {
    /// Bytes in memory.
    pub const fn size(self) -> u64 {
        self.representation.size()
    }
}

/// How a reduction treats a predefined datatype.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Element {
    /// A basic element.
    Basic(Basic),
    /// A value and an index, for `MPI_MINLOC` and `MPI_MAXLOC`. The second number is the index's offset in bytes.
    Pair(Basic, Basic, u64),
}
