//! Every predefined operation on every predefined type, against the operation written out on one element.

use super::*;
use crate::Class;
use crate::data::datatype::{Basic, Category, Representation};
use rustc_apfloat::Float;
use std::collections::HashMap;

fn op(name: &str) -> &'static Arc<Op> {
    Op::all_predefined()
        .find(|(_, op)| op.name() == name)
        .expect("a predefined operation")
        .1
}

fn datatype(name: &str) -> &'static Arc<Datatype> {
    Datatype::all_predefined()
        .find(|(_, datatype)| datatype.name() == name)
        .expect("a predefined type")
        .1
}

/// A number that every representation in question holds exactly, small enough that results stay exact too.
const SAMPLES: [i64; 11] = [0, 1, 2, 3, 5, 7, -1, -2, -3, 100, 127];

/// The bytes of the number `value` in a representation, real part and imaginary part where it is complex.
pub(super) fn encode(representation: Representation, value: i64, imaginary: i64) -> Vec<u8> {
    use Representation::*;
    match representation {
        I8 | U8 | I16 | U16 | I32 | U32 | I64 | U64 | I128 | L8 | L16 | L32 | L64 | L128 => {
            i128::from(value).to_le_bytes()[..representation.size() as usize].to_vec()
        }
        F32 => (value as f32).to_le_bytes().to_vec(),
        F64 => (value as f64).to_le_bytes().to_vec(),
        LongDouble if cfg!(not(target_arch = "x86_64")) => encode(F128, value, 0),
        LongDouble => {
            let mut bytes = vec![0; 16];
            if value != 0 {
                // An explicit integer bit, the exponent's bias of 16383.
                let magnitude = value.unsigned_abs();
                let exponent = 63 - magnitude.leading_zeros();
                bytes[..8].copy_from_slice(&(magnitude << (63 - exponent)).to_le_bytes());
                let sign = if value < 0 { 0x8000 } else { 0 };
                bytes[8..10].copy_from_slice(&((16383 + exponent as u16) | sign).to_le_bytes());
            }
            bytes
        }
        ComplexF32 => [encode(F32, value, 0), encode(F32, imaginary, 0)].concat(),
        ComplexF64 => [encode(F64, value, 0), encode(F64, imaginary, 0)].concat(),
        ComplexLongDouble => [encode(LongDouble, value, 0), encode(LongDouble, imaginary, 0)].concat(),
        F128 if value == 0 => vec![0; 16],
        F128 => {
            let magnitude = u128::from(value.unsigned_abs());
            let exponent = 127 - magnitude.leading_zeros();
            let fraction = magnitude << (112 - exponent) & ((1 << 112) - 1);
            let bits = u128::from(value < 0) << 127 | u128::from(16383 + exponent) << 112 | fraction;
            bits.to_ne_bytes().to_vec()
        }
        ComplexF128 => [encode(F128, value, 0), encode(F128, imaginary, 0)].concat(),
        F16 => {
            let number = rustc_apfloat::ieee::Half::from_i128(i128::from(value)).value;
            (number.to_bits() as u16).to_ne_bytes().to_vec()
        }
        ComplexF16 => [encode(F16, value, 0), encode(F16, imaginary, 0)].concat(),
    }
}

/// What the operation of this name makes of two numbers as an element of `basic`.
fn expected(op: &str, basic: Basic, (a, ai): (i64, i64), (b, bi): (i64, i64)) -> Vec<u8> {
    use Representation::*;
    // The sample as the type sees it: 255 is what -1 is to an unsigned byte.
    let seen = |value: i64| match basic.representation {
        U8 => i128::from(value as u8),
        U16 => i128::from(value as u16),
        U32 => i128::from(value as u32),
        U64 => i128::from(value as u64),
        _ => i128::from(value),
    };
    let complex = basic.category == Category::Complex;
    let (x, y) = (seen(a), seen(b));
    let (real, imaginary) = match op {
        "MPI_MAX" => (x.max(y), 0),
        "MPI_MIN" => (x.min(y), 0),
        "MPI_SUM" => (x + y, i128::from(ai + bi)),
        "MPI_PROD" if complex => (i128::from(a * b - ai * bi), i128::from(a * bi + ai * b)),
        "MPI_PROD" => (x.wrapping_mul(y), 0),
        "MPI_BAND" => (x & y, 0),
        "MPI_BOR" => (x | y, 0),
        "MPI_BXOR" => (x ^ y, 0),
        "MPI_LAND" => (i128::from(x != 0 && y != 0), 0),
        "MPI_LOR" => (i128::from(x != 0 || y != 0), 0),
        "MPI_LXOR" => (i128::from((x != 0) != (y != 0)), 0),
        _ => unreachable!("{op} is not for numbers"),
    };
    match basic.representation {
        I128 | L128 => real.to_le_bytes().to_vec(),
        other => encode(other, real as i64, imaginary as i64),
    }
}

/// The table of section 6.9.2, by name, with C's `char` among the integers, and logical operations on addresses and counts.
fn defined(op: &str, category: Category) -> bool {
    use Category::*;
    let categories: &[Category] = match op {
        "MPI_MAX" | "MPI_MIN" => &[CInteger, Char, FortranInteger, Floating, MultiLanguage],
        "MPI_SUM" | "MPI_PROD" => &[CInteger, Char, FortranInteger, Floating, Complex, MultiLanguage],
        "MPI_LAND" | "MPI_LOR" | "MPI_LXOR" => &[CInteger, Char, Logical, MultiLanguage],
        "MPI_BAND" | "MPI_BOR" | "MPI_BXOR" => &[CInteger, Char, FortranInteger, Byte, MultiLanguage],
        "MPI_REPLACE" | "MPI_NO_OP" => return true,
        _ => &[],
    };
    categories.contains(&category)
}

#[test]
fn every_operation_on_every_basic_type() {
    let mut pairs = 0;
    for (_, op) in Op::all_predefined() {
        for (_, datatype) in Datatype::all_predefined() {
            let Some(Element::Basic(basic)) = datatype.element() else {
                continue;
            };
            let result = op.check(datatype);
            let wanted = defined(&op.name(), basic.category);
            assert_eq!(
                result.is_ok(),
                wanted,
                "{} on {}: {result:?}",
                op.name(),
                datatype.name()
            );
            if let Err(error) = result {
                assert_eq!(error.class, Class::Op);
                continue;
            }
            if op.is_accumulate_only() {
                continue;
            }
            pairs += 1;
            let size = basic.size() as usize;
            let numbers: Vec<_> = SAMPLES
                .iter()
                .flat_map(|&a| SAMPLES.iter().map(move |&b| (a, b)))
                .collect();
            // Small enough imaginary parts that products of four stay small.
            let (first, second) = (|a: i64| (a, a % 7), |b: i64| (b, 3 - b % 5));
            // Byte 0 is skipped, so that nothing is aligned.
            let (mut input, mut inout, mut results) = (vec![0], vec![0], vec![0]);
            for &(a, b) in &numbers {
                let ((a, ai), (b, bi)) = (first(a), second(b));
                input.extend(encode(basic.representation, a, ai));
                inout.extend(encode(basic.representation, b, bi));
                results.extend(expected(&op.name(), basic, (a, ai), (b, bi)));
            }
            // SAFETY: both hold an element per pair of numbers behind their first byte.
            unsafe {
                op.apply(
                    input[1..].as_ptr(),
                    inout[1..].as_mut_ptr(),
                    numbers.len() as u64,
                    datatype,
                )
            };
            for (index, (a, b)) in numbers.iter().enumerate() {
                let range = 1 + index * size..1 + (index + 1) * size;
                let (got, wanted) = (&inout[range.clone()], &results[range]);
                // Zeros are equal whatever their sign.
                let zero = |bytes: &[u8]| encode(basic.representation, 0, 0) == bytes;
                let sign = |bytes: &[u8]| bytes.iter().map(|byte| byte & 0x7f).collect::<Vec<_>>();
                let equal = got == wanted || (zero(&sign(got)) && zero(wanted));
                assert!(
                    equal,
                    "{} on {}: {a}, {b}: {got:?}, not {wanted:?}",
                    op.name(),
                    datatype.name()
                );
            }
        }
    }
    assert!(pairs > 300, "{pairs} pairs of operation and type were compared");
}

/// Applies an operation to arrays of a Rust type that is laid out as the MPI type.
fn apply<T: Copy>(op: &Op, datatype: &Arc<Datatype>, input: &[T], inout: &mut [T]) {
    assert_eq!(input.len(), inout.len());
    assert_eq!(i64::try_from(size_of::<T>()), Ok(datatype.extent()));
    op.check(datatype).expect("defined");
    // SAFETY: two slices of the same number of elements of the datatype.
    unsafe {
        op.apply(
            input.as_ptr().cast(),
            inout.as_mut_ptr().cast(),
            input.len() as u64,
            datatype,
        )
    };
}

#[test]
fn locations_break_ties_by_index() {
    let named = [
        ("MPI_FLOAT_INT", Representation::F32, 4),
        ("MPI_DOUBLE_INT", Representation::F64, 4),
        ("MPI_LONG_INT", Representation::I64, 4),
        ("MPI_2INT", Representation::I32, 4),
        ("MPI_SHORT_INT", Representation::I16, 4),
        ("MPI_LONG_DOUBLE_INT", Representation::LongDouble, 4),
        ("MPI_2INTEGER", Representation::I32, 4),
        ("MPI_2REAL", Representation::F32, 4),
        ("MPI_2DOUBLE_PRECISION", Representation::F64, 8),
    ];
    for (name, value, index_size) in named {
        let Some(Element::Pair(basic, index, _)) = datatype(name).element() else {
            panic!("{name} is a pair");
        };
        assert_eq!((basic.representation, index.size()), (value, index_size));
    }
    for (name, ..) in named {
        let pair = datatype(name);
        let Some(Element::Pair(value, index, at)) = pair.element() else {
            panic!("{} is a pair", pair.describe());
        };
        let (value, index_size) = (value.representation, index.size());
        // 0xa5 in the padding, which must stay.
        let build = |numbers: &[(i64, i64)]| {
            let mut bytes = vec![0xa5; numbers.len() * pair.extent() as usize];
            for (element, &(v, i)) in bytes.chunks_mut(pair.extent() as usize).zip(numbers) {
                element[..value.size() as usize].copy_from_slice(&encode(value, v, 0));
                element[at as usize..][..index_size as usize].copy_from_slice(&encode(
                    index.representation,
                    i,
                    0,
                ));
            }
            bytes
        };
        let (input, inout) = (
            [(3, 7), (5, 1), (4, 9), (-2, 5)],
            [(3, 4), (2, 2), (6, 0), (-2, 8)],
        );
        for (op_name, result) in [
            ("MPI_MAXLOC", [(3, 4), (5, 1), (6, 0), (-2, 5)]),
            ("MPI_MINLOC", [(3, 4), (2, 2), (4, 9), (-2, 5)]),
        ] {
            op(op_name).check(pair).expect("defined");
            let mut bytes = build(&inout);
            // SAFETY: four pairs in each.
            unsafe { op(op_name).apply(build(&input).as_ptr(), bytes.as_mut_ptr(), 4, pair) };
            assert_eq!(bytes, build(&result), "{op_name} on {name}");
        }
        assert!(op("MPI_SUM").check(pair).is_err());
    }
    assert!(op("MPI_MAXLOC").check(datatype("MPI_INT")).is_err());
}

#[test]
fn not_a_number_keeps_the_second_operand() {
    #[derive(Clone, Copy)]
    #[repr(C)]
    struct FloatInt(f32, i32);
    let double = datatype("MPI_DOUBLE");
    for name in ["MPI_MAX", "MPI_MIN"] {
        let mut inout = [1.0, f64::NAN];
        apply(op(name), double, &[f64::NAN, 1.0], &mut inout);
        assert!(inout[0] == 1.0 && inout[1].is_nan(), "{name}: {inout:?}");
    }
    for name in ["MPI_MAXLOC", "MPI_MINLOC"] {
        let mut inout = [FloatInt(1.0, 5), FloatInt(f32::NAN, 6)];
        apply(
            op(name),
            datatype("MPI_FLOAT_INT"),
            &[FloatInt(f32::NAN, 1), FloatInt(2.0, 2)],
            &mut inout,
        );
        assert!(inout[0].0 == 1.0 && inout[0].1 == 5 && inout[1].0.is_nan() && inout[1].1 == 6);
    }
}

#[test]
fn replace_and_no_op_work_on_any_layout() {
    let column = Datatype::vector(3, 1, 2, datatype("MPI_SHORT")).expect("valid");
    let input = [1i16, 2, 3, 4, 5, 6];
    let mut inout = [0i16; 6];
    // SAFETY: one element in each, which reaches 5 shorts far.
    unsafe { op("MPI_NO_OP").apply(input.as_ptr().cast(), inout.as_mut_ptr().cast(), 1, &column) };
    assert_eq!(inout, [0; 6]);
    // SAFETY: as above.
    unsafe { op("MPI_REPLACE").apply(input.as_ptr().cast(), inout.as_mut_ptr().cast(), 1, &column) };
    assert_eq!(inout, [1, 0, 3, 0, 5, 0]);
}

unsafe extern "C" fn subtract(
    input: *mut c_void,
    inout: *mut c_void,
    length: *mut c_int,
    datatype: *mut usize,
) {
    // SAFETY: called below with arrays of `length` 64-bit integers, and pointers to length and handle.
    unsafe {
        assert_eq!(*datatype, 4711);
        for index in 0..*length as usize {
            *inout.cast::<i64>().add(index) =
                *input.cast::<i64>().add(index) - *inout.cast::<i64>().add(index);
        }
    }
}

unsafe extern "C" fn count_up(_: *mut c_void, inout: *mut c_void, length: *mut i64, _: *mut usize) {
    // SAFETY: called below with one integer and a pointer to the length.
    unsafe { *inout.cast::<i64>() += *length };
}

unsafe extern "C" fn count_pieces(_: *mut c_void, inout: *mut c_void, length: *mut c_int, _: *mut usize) {
    // SAFETY: called below with a type of extent 0, so that every piece starts at the same integer.
    unsafe { *inout.cast::<i64>() += 1_000_000_000_000 + i64::from(*length) };
}

#[test]
fn user_functions_get_their_arguments() {
    let pair = Datatype::contiguous(1, Datatype::int64()).expect("valid");
    pair.set_handle(4711);
    // SAFETY: applied to what the function takes.
    let minus = unsafe { Op::user(UserFunction::Int(subtract), false, Lender::NOBODY) };
    assert!(!minus.commutes() && !minus.is_predefined());
    let mut inout = [1i64, 2, 3];
    apply(&minus, &pair, &[10, 20, 30], &mut inout);
    assert_eq!(inout, [9, 18, 27]);

    // More elements than an int counts, all in the same place.
    let point = Datatype::resized(&pair, 0, 0).expect("valid");
    let (input, mut inout, many) = (0i64, 0i64, 5_000_000_000u64);
    for (function, result) in [
        (UserFunction::Large(count_up), 5_000_000_000),
        (UserFunction::Int(count_pieces), 3_005_000_000_000),
    ] {
        inout = 0;
        // SAFETY: the function takes the type, which has no extent: one integer in each holds any number of elements.
        unsafe {
            Op::user(function, true, Lender::NOBODY).apply(
                (&raw const input).cast(),
                (&raw mut inout).cast(),
                many,
                &point,
            )
        };
        assert_eq!(inout, result);
    }
    assert_ne!(inout, 0);
}

#[test]
fn many_inputs_are_combined_from_the_last_to_the_first() {
    let pair = Datatype::contiguous(1, Datatype::int64()).expect("valid");
    pair.set_handle(4711);
    // SAFETY: applied to what the function takes.
    let minus = unsafe { Op::user(UserFunction::Int(subtract), false, Lender::NOBODY) };
    let inputs = [[100i64, 7], [20, 5], [3, -1]];
    let addresses: Vec<*const u8> = inputs.iter().map(|input| input.as_ptr().cast()).collect();
    let many = |op: &Op, datatype, inputs: &[*const u8]| {
        let mut output = [-9i64; 2];
        // SAFETY: two integers in each.
        unsafe { op.combine_many(inputs, output.as_mut_ptr().cast(), 2, datatype) };
        output
    };
    assert_eq!(many(&minus, &pair, &addresses), [100 - (20 - 3), 7 - (5 + 1)]);
    assert_eq!(many(&minus, &pair, &addresses[1..2]), [20, 5]);
    assert_eq!(many(&minus, &pair, &[]), [-9, -9]);
    let long = datatype("MPI_INT64_T");
    assert_eq!(many(op("MPI_SUM"), long, &addresses), [123, 11]);
    assert_eq!(many(op("MPI_MIN"), long, &addresses[..2]), [20, 5]);
    assert_eq!(many(op("MPI_MIN"), long, &addresses[..1]), [100, 7]);

    // The output may be the last input, whatever the operation.
    let mut last = inputs[2];
    let address = last.as_mut_ptr().cast::<u8>();
    // SAFETY: as above.
    unsafe {
        minus.combine_many(
            &[addresses[0], addresses[1], address.cast_const()],
            address,
            2,
            &pair,
        )
    };
    assert_eq!(last, [83, 1]);
}

#[test]
fn errors_name_operation_and_datatype() {
    let error = op("MPI_BAND").check(datatype("MPI_DOUBLE")).unwrap_err();
    assert_eq!(error.class, Class::Op);
    assert_eq!(error.message, "MPI_BAND is not defined on MPI_DOUBLE");
    let derived = Datatype::contiguous(2, datatype("MPI_INT")).expect("valid");
    let error = op("MPI_SUM").check(&derived).unwrap_err();
    assert!(
        error
            .message
            .starts_with("MPI_SUM is not defined on a derived datatype"),
        "{error}"
    );
}

#[test]
fn predefined_operations_are_those_of_the_abi() {
    let mut names: HashMap<&str, usize> = HashMap::new();
    for line in include_str!("../../../tests/abi/constants.tsv").lines() {
        let mut fields = line.split('\t');
        if let (Some(name), Some("MPI_Op"), Some(value)) = (fields.next(), fields.next(), fields.next()) {
            names.insert(name, value.parse().expect("a number"));
        }
    }
    assert_eq!(names.remove("MPI_OP_NULL"), Some(32));
    for (handle, op) in Op::all_predefined() {
        assert_eq!(names.remove(&*op.name()), Some(handle));
        assert!(op.is_predefined() && op.handle() == handle);
        assert_eq!(op.commutes(), !op.is_accumulate_only());
    }
    assert!(names.is_empty(), "not defined: {names:?}");
}
