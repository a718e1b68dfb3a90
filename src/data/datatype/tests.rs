//! Cases worth naming: the ABI's numbers, errors, overflow, envelopes, memory of regular types.

use super::*;
use crate::base::error::Class;
use std::collections::HashMap;

fn named(name: &str) -> &'static Arc<Datatype> {
    Datatype::all_predefined()
        .find(|(_, datatype)| datatype.name() == name)
        .expect("a predefined type")
        .1
}

#[test]
fn a_class_and_a_size_have_the_type_of_that_name() {
    for (number, name) in [
        (191, "LOGICAL"),
        (192, "INTEGER"),
        (193, "REAL"),
        (194, "COMPLEX"),
    ] {
        let class = TypeClass::from_abi(number).unwrap();
        for size in 0..64 {
            let there = Datatype::all_predefined().find(|(_, one)| one.name() == format!("MPI_{name}{size}"));
            let found = Datatype::match_size(class, size).ok();
            assert_eq!(
                found.map(|one| one.handle()),
                there.map(|(handle, _)| handle),
                "{name}{size}"
            );
        }
    }
    TypeClass::from_abi(190).unwrap_err();
}

#[test]
fn predefined_types_are_those_of_the_abi() {
    let table = include_str!("../../../tests/abi/constants.tsv");
    let mut names: HashMap<usize, Vec<&str>> = HashMap::new();
    for line in table.lines() {
        let mut fields = line.split('\t');
        if let (Some(name), Some("MPI_Datatype"), Some(value)) = (fields.next(), fields.next(), fields.next())
        {
            names
                .entry(value.parse().expect("a number"))
                .or_default()
                .push(name);
        }
    }
    assert_eq!(names.remove(&512), Some(vec!["MPI_DATATYPE_NULL"]));
    assert!(Datatype::predefined(512).is_none());
    for (handle, datatype) in Datatype::all_predefined() {
        let names = names
            .remove(&handle)
            .unwrap_or_else(|| panic!("{handle} is no constant"));
        assert!(
            names.contains(&&*datatype.name()),
            "{handle} is {names:?}, not {}",
            datatype.name()
        );
        assert_eq!(datatype.handle(), handle);
        assert!(datatype.is_committed() && datatype.is_predefined());
        assert_eq!(datatype.combiner(), Combiner::Named);
        assert_eq!(datatype.contents().unwrap_err().class, Class::Type);
        // The ABI codes the size of fixed-size types in the number (section 20.3.4).
        if (576..640).contains(&handle) || (704..768).contains(&handle) {
            assert_eq!(
                datatype.size(),
                1 << ((handle >> 3) & 7),
                "size of {}",
                datatype.name()
            );
        }
    }
    assert!(names.is_empty(), "not defined: {names:?}");
    assert!(Datatype::predefined(0).is_none() && Datatype::predefined(usize::MAX).is_none());
}

#[test]
fn the_mean_run_is_the_size_by_the_number_of_runs() {
    let int = named("MPI_INT");
    let rows = Datatype::vector(3, 2, 4, int).unwrap();
    let uneven = Datatype::indexed(&[3, 1], &[0, 5], int).unwrap();
    for (datatype, runs) in [
        (int.clone(), 1),
        (Datatype::contiguous(5, int).unwrap(), 1),
        (rows.clone(), 3),
        (Datatype::hvector(100, 1, 1000, &rows).unwrap(), 300),
        (uneven.clone(), 2),
        (Datatype::hvector(100, 1, 1000, &uneven).unwrap(), 200),
        (
            Datatype::hvector(7, 1, 1000, &Datatype::hvector(5, 1, 100, &rows).unwrap()).unwrap(),
            105,
        ),
    ] {
        assert_eq!(
            datatype.mean_run(),
            datatype.size() / runs,
            "{runs} runs of {} bytes",
            datatype.size()
        );
    }
    assert_eq!(Datatype::contiguous(0, int).unwrap().mean_run(), 0);
}

#[test]
fn pairs_are_laid_out_as_in_c() {
    for (name, size, extent, true_extent) in [
        ("MPI_FLOAT_INT", 8, 8, 8),
        ("MPI_DOUBLE_INT", 12, 16, 12),
        ("MPI_LONG_INT", 12, 16, 12),
        ("MPI_2INT", 8, 8, 8),
        ("MPI_SHORT_INT", 6, 8, 8),
        ("MPI_LONG_DOUBLE_INT", 20, 32, 20),
        ("MPI_2REAL", 8, 8, 8),
        ("MPI_2DOUBLE_PRECISION", 16, 16, 16),
        ("MPI_2INTEGER", 8, 8, 8),
    ] {
        let pair = named(name);
        assert_eq!(
            (pair.size(), pair.extent(), pair.true_extent()),
            (size, extent, true_extent),
            "{name}"
        );
        assert_eq!(pair.elements_of(size), Some(2), "{name}");
    }
    assert_eq!(named("MPI_2INT").run(10), Some((0, 80)));
    assert_eq!(named("MPI_DOUBLE_INT").run(1), Some((0, 12)));
    assert_eq!(named("MPI_DOUBLE_INT").run(2), None);
    let pair = Datatype::value_index(named("MPI_LONG"), named("MPI_INT")).expect("predefined");
    assert_eq!(pair.name(), "MPI_LONG_INT");
    assert!(Datatype::value_index(named("MPI_INT"), named("MPI_LONG")).is_none());
}

/// The extent by the standard's words (section 5.1.6): `ub - lb`, rounded up to the next multiple of the strictest alignment, over
/// the type map alone, a list of basic elements and their displacements. What a vector was made of is a part of the type map only
/// by its elements: padding at their end is no entry, unless `MPI_Type_create_resized` or a subarray put a marker there.
#[test]
fn the_extent_of_a_vector_of_a_padded_vector_is_that_of_its_type_map() {
    let strided = |count: i64, blocklength: i64, stride: i64, old: &[i64], extent: i64| -> Vec<i64> {
        let blocks = (0..count).flat_map(|block| (0..blocklength).map(move |copy| (block, copy)));
        blocks
            .flat_map(|(block, copy)| old.iter().map(move |at| at + block * stride + copy * extent))
            .collect()
    };
    let extent = |displacements: &[i64]| -> i64 {
        let lb = *displacements.iter().min().expect("elements");
        let ub = displacements.iter().max().expect("elements") + 4;
        (ub - lb + 3) / 4 * 4
    };
    let int = named("MPI_INT");
    let inner = Datatype::hvector(3, 4, 25, int).expect("valid");
    let inner_map = strided(3, 4, 25, &[0], 4);
    assert_eq!((inner.extent(), extent(&inner_map)), (68, 68));
    let outer = Datatype::hvector(2, 3, 273, &inner).expect("valid");
    let outer_map = strided(2, 3, 273, &inner_map, inner.extent());
    assert_eq!((outer.extent(), extent(&outer_map)), (476, 476));
    // MPICH does not round a vector's extent (66, 471), and Open MPI starts from the padded end of the last copy (480).
    assert_eq!((inner.true_extent(), outer.true_extent()), (66, 475));
    let marked =
        Datatype::hvector(2, 3, 273, &Datatype::resized(&inner, 0, 68).expect("valid")).expect("valid");
    assert_eq!(
        marked.extent(),
        273 + 3 * 68,
        "a marker is an entry of the type map"
    );
}

#[test]
fn contents_are_objects_of_their_own() {
    let column = Datatype::vector(3, 1, 2, named("MPI_INT"))
        .expect("valid")
        .made_large();
    column.set_name("column");
    column.set_handle(4711);
    column.commit();
    let second = Datatype::second(&column);
    assert_eq!(second.combiner(), Combiner::Vector);
    assert_eq!(second.contents().expect("derived").large_counts, [3, 1, 2]);
    assert_eq!((second.size(), second.extent()), (column.size(), column.extent()));
    assert_eq!((second.handle(), &*second.name()), (0, ""));
    second.set_name("other");
    assert_eq!(column.name(), "column");
}

#[test]
fn regular_types_are_loops_however_large() {
    let column = Datatype::vector(1 << 20, 1, 4096, named("MPI_DOUBLE")).expect("valid");
    assert!(matches!(*column.layout, Layout::Strided { len: 8, .. }));
    let rows = Datatype::hvector(1 << 20, 1, (4096 * 8) << 20, &column).expect("valid");
    assert!(matches!(*rows.layout, Layout::Strided { count, .. } if count == 1 << 40));
    let whole = Datatype::contiguous(1 << 55, named("MPI_DOUBLE")).expect("valid");
    assert_eq!(whole.run(1), Some((0, 1 << 58)));
    assert_eq!(whole.elements_of(1 << 58), Some(1 << 55));
    assert_eq!(whole.elements_of(1 << 57), Some(1 << 54));
    assert_eq!(whole.run(64), None, "2⁶⁴ bytes are no run");
    // Regular displacements written out as a list.
    let places: Vec<i64> = (0..1000).map(|index| index * 10).collect();
    let listed = Datatype::indexed_block(2, &places, named("MPI_INT")).expect("valid");
    assert!(matches!(
        *listed.layout,
        Layout::Strided {
            count: 1000,
            stride: 40,
            len: 8,
            ..
        }
    ));
    // A structure without gaps is one run, and so is an array of it.
    let (int, float) = (named("MPI_INT").clone(), named("MPI_FLOAT").clone());
    let packed = Datatype::struct_(&[1, 3], &[0, 4], &[int, float]).expect("valid");
    assert_eq!(packed.run(1000), Some((0, 16000)));
}

#[test]
fn partial_packing_starts_far_inside() {
    // 2⁴⁰ blocks over nothing: only the bytes at one place exist.
    let base = Datatype::vector(1 << 40, 1, 3, Datatype::byte()).expect("valid");
    let mut memory = *b"abcdefg";
    let skip = 1i64 << 39;
    let from = memory.as_mut_ptr().wrapping_offset(-(3 * skip as isize));
    let mut into = [0; 3];
    // SAFETY: the three packed bytes from `skip` on are in `memory`.
    assert_eq!(unsafe { base.pack(from, 1, skip as u64, &mut into[..]) }, 3);
    assert_eq!(&into, b"adg");
}

#[test]
fn absolute_addresses_pack_from_bottom() {
    let values = [1u32, 2, 3];
    let address = (&raw const values).expose_provenance() as i64;
    let absolute = Datatype::hindexed(&[1, 1], &[address + 8, address], named("MPI_INT")).expect("valid");
    let mut into = [0; 8];
    // SAFETY: the displacements are addresses of `values`.
    assert_eq!(unsafe { absolute.pack(std::ptr::null(), 1, 0, &mut into[..]) }, 8);
    assert_eq!(into.map(u32::from), [3, 0, 0, 0, 1, 0, 0, 0]);
}

#[test]
fn errors_name_the_argument() {
    let int = named("MPI_INT");
    let refused = |result: crate::Result<Arc<Datatype>>, class: Class, words: &str| {
        let error = result.expect_err(words);
        assert_eq!(error.class, class, "{error}");
        assert!(error.message.contains(words), "{error} lacks {words}");
    };
    refused(Datatype::contiguous(-1, int), Class::Count, "count is -1");
    refused(Datatype::vector(1, -2, 1, int), Class::Count, "blocklength is -2");
    refused(
        Datatype::indexed(&[1, -3], &[0, 0], int),
        Class::Count,
        "array_of_blocklengths[1] is -3",
    );
    refused(
        Datatype::indexed(&[1], &[0, 0], int),
        Class::Arg,
        "array_of_blocklengths has 1",
    );
    refused(
        Datatype::indexed_block(-1, &[], int),
        Class::Count,
        "blocklength is -1",
    );
    refused(
        Datatype::contiguous(i64::MAX, int),
        Class::ValueTooLarge,
        "63 bits",
    );
    refused(
        Datatype::vector(2, 1, i64::MAX, int),
        Class::ValueTooLarge,
        "stride",
    );
    refused(
        Datatype::hvector(3, 1, i64::MAX, int),
        Class::ValueTooLarge,
        "does not fit in 64 bits",
    );
    refused(
        Datatype::hindexed(&[1], &[i64::MAX], int),
        Class::ValueTooLarge,
        "does not fit in 64 bits",
    );
    refused(
        Datatype::hindexed(&[1, 1], &[i64::MAX - 4, i64::MIN], int),
        Class::ValueTooLarge,
        "does not fit",
    );
    refused(Datatype::resized(int, i64::MAX, 1), Class::Arg, "upper bound");
    let large = Datatype::contiguous(1 << 60, int).expect("valid");
    let types = [large.clone(), large];
    refused(
        Datatype::struct_(&[1, 1], &[0, 0], &types),
        Class::ValueTooLarge,
        "63 bits",
    );
    refused(
        Datatype::subarray(&[], &[], &[], Order::C, int),
        Class::Arg,
        "ndims is 0",
    );
    refused(
        Datatype::subarray(&[4], &[5], &[0], Order::C, int),
        Class::Arg,
        "array_of_subsizes[0] is 5",
    );
    refused(
        Datatype::subarray(&[4], &[2], &[3], Order::C, int),
        Class::Arg,
        "array_of_starts[0] is 3",
    );
    refused(
        Datatype::subarray(&[1 << 32; 2], &[1; 2], &[0; 2], Order::C, int),
        Class::ValueTooLarge,
        "sizes",
    );
    // All of it at one place: an array without extent, whose elements are too many bytes.
    let extentless = Datatype::resized(int, 0, 0).expect("valid");
    refused(
        Datatype::subarray(&[1 << 31; 2], &[1 << 31; 2], &[0; 2], Order::C, &extentless),
        Class::ValueTooLarge,
        "63 bits",
    );
    let nest = Datatype::subarray(&[1 << 40], &[1 << 40], &[0], Order::C, &extentless).expect("valid");
    for order in [Order::C, Order::Fortran] {
        refused(
            Datatype::subarray(&[1 << 30; 2], &[1 << 30; 2], &[0; 2], order, &nest),
            Class::ValueTooLarge,
            "63 bits",
        );
        refused(
            Datatype::darray(1, 0, &[1 << 30; 2], &[17; 2], &[19; 2], &[1; 2], order, &nest),
            Class::ValueTooLarge,
            "63 bits",
        );
    }
    let darray = |size, rank, distribution, argument, processes| {
        Datatype::darray(
            size,
            rank,
            &[10],
            &[distribution],
            &[argument],
            &[processes],
            Order::C,
            int,
        )
    };
    refused(darray(2, 2, 17, 19, 2), Class::Arg, "rank is 2");
    refused(
        darray(3, 0, 17, 19, 2),
        Class::Arg,
        "does not multiply to the size, 3",
    );
    refused(darray(2, 0, 17, 3, 2), Class::Arg, "array_of_dargs[0] is 3");
    refused(darray(2, 0, 16, 19, 2), Class::Arg, "array_of_psizes[0] is 2");
    refused(darray(2, 0, 99, 19, 2), Class::Arg, "array_of_distribs[0] is 99");
}

#[test]
fn huge_types_of_nothing_are_fine() {
    let nothing = Datatype::contiguous(0, named("MPI_INT")).expect("valid");
    assert_eq!((nothing.size(), nothing.extent(), nothing.lb()), (0, 0, 0));
    let many = Datatype::vector(i64::MAX, i64::MAX, i64::MAX, &nothing).expect("valid");
    assert_eq!(many.run(u64::MAX), Some((0, 0)));
    let marked = Datatype::resized(&nothing, i64::MIN, 1).expect("valid");
    assert!(Datatype::hvector(i64::MAX, 1, i64::MAX, &marked).is_err());
    assert_eq!(nothing.elements_of(0), Some(0));
}

#[test]
fn envelopes_repeat_the_call() {
    let int = named("MPI_INT");
    let hvector = Datatype::hvector(2, 3, -16, int).expect("valid");
    let envelope = hvector.envelope();
    assert_eq!(
        (
            envelope.integers,
            envelope.addresses,
            envelope.large_counts,
            envelope.datatypes
        ),
        (2, 1, 0, 1)
    );
    let contents = hvector.contents().expect("derived");
    assert_eq!((contents.integers, contents.addresses), (vec![2, 3], vec![-16]));
    assert!(Arc::ptr_eq(&contents.datatypes[0], int));

    let large = Datatype::hvector(2, 3, -16, int).expect("valid").made_large();
    let contents = large.contents().expect("derived");
    assert!(contents.integers.is_empty() && contents.addresses.is_empty());
    assert_eq!(contents.large_counts, [2, 3, -16]);
    assert!(large.has_large_counts() && !hvector.has_large_counts());

    let subarray = Datatype::subarray(&[4, 6], &[2, 3], &[1, 2], Order::Fortran, int).expect("valid");
    assert_eq!(
        subarray.contents().expect("derived").integers,
        [2, 4, 6, 2, 3, 1, 2, 15]
    );
    let darray = Datatype::darray(4, 1, &[5, 6], &[17, 18], &[19, 2], &[2, 2], Order::C, int).expect("valid");
    let integers = darray.contents().expect("derived").integers;
    assert_eq!(integers, [4, 1, 2, 5, 6, 17, 18, 19, 2, 2, 2, 12]);
    let contents = darray.made_large().contents().expect("derived");
    assert_eq!(contents.integers, [4, 1, 2, 17, 18, 19, 2, 2, 2, 12]);
    assert_eq!(contents.large_counts, [5, 6]);
    assert_eq!(Datatype::dup(&subarray).combiner(), Combiner::Dup);
}

#[test]
fn duplicates_keep_the_commitment() {
    let column = Datatype::vector(3, 1, 2, named("MPI_INT")).expect("valid");
    assert!(!Datatype::dup(&column).is_committed());
    column.commit();
    column.set_name("column");
    let twin = Datatype::dup(&column);
    assert!(twin.is_committed() && !twin.is_predefined());
    assert_eq!(twin.name(), "");
}

/// External bytes of native ones, and native bytes of those.
fn external<T: Copy + Default>(name: &str, value: T) -> (Vec<u8>, T) {
    let datatype = named(name);
    let mut into = vec![0; datatype.external_size(1).expect("small") as usize];
    // SAFETY: one element in a variable of its type.
    unsafe { datatype.pack_external((&raw const value).cast(), 1, &mut into) }.expect("fits");
    let mut back = T::default();
    // SAFETY: as above.
    unsafe { datatype.unpack_external((&raw mut back).cast(), 1, &into) }.expect("long enough");
    (into, back)
}

#[test]
fn a_boolean_from_external32_is_0_or_1() {
    for (name, expected) in [
        ("MPI_C_BOOL", [0, 1, 1, 1]),
        ("MPI_CXX_BOOL", [0, 1, 1, 1]),
        ("MPI_UINT8_T", [0, 1, 2, 0xff]),
    ] {
        let mut bytes = [9u8; 4];
        // SAFETY: room for four elements of a byte.
        let taken = unsafe { named(name).unpack_external(bytes.as_mut_ptr(), 4, &[0, 1, 2, 0xff]) };
        assert_eq!((taken.unwrap(), bytes), (4, expected), "{name}");
    }
}

#[test]
fn external32_is_big_endian_and_compact() {
    assert_eq!(external("MPI_INT", -2i32), (vec![0xff, 0xff, 0xff, 0xfe], -2));
    assert_eq!(external("MPI_LONG", -2i64), (vec![0xff, 0xff, 0xff, 0xfe], -2));
    assert_eq!(
        external("MPI_UNSIGNED_LONG", 0xffff_fffeu64),
        (vec![0xff, 0xff, 0xff, 0xfe], 0xffff_fffe)
    );
    assert_eq!(external("MPI_WCHAR", 0x20acu32), (vec![0x20, 0xac], 0x20ac));
    assert_eq!(external("MPI_AINT", 1i64), (vec![0, 0, 0, 0, 0, 0, 0, 1], 1));
    assert_eq!(
        external("MPI_DOUBLE", 1.0f64),
        (vec![0x3f, 0xf0, 0, 0, 0, 0, 0, 0], 1.0)
    );
    let (bytes, back) = external("MPI_C_COMPLEX", [1.0f32, -2.0]);
    assert_eq!(
        (bytes, back),
        (vec![0x3f, 0x80, 0, 0, 0xc0, 0, 0, 0], [1.0, -2.0])
    );
    assert_eq!(external("MPI_C_BOOL", 1u8), (vec![1], 1));

    let long = named("MPI_LONG");
    let value = 1i64 << 31;
    // SAFETY: one element in a variable of its type.
    let error = unsafe { long.pack_external((&raw const value).cast(), 1, &mut [0; 4]) }.unwrap_err();
    assert_eq!(error.class, Class::Conversion);
    // SAFETY: as above; nothing is written.
    let error = unsafe { long.pack_external((&raw const value).cast(), 1, &mut [0; 3]) }.unwrap_err();
    assert_eq!(error.class, Class::Truncate);

    // Columns of a structure with gaps, through several pieces.
    let pair = Datatype::vector(500, 1, 2, named("MPI_DOUBLE_INT")).expect("valid");
    assert_eq!(pair.external_size(2).expect("small"), 12000);
    let native: Vec<u8> = (0..2 * 1000 * 16).map(|index| index as u8).collect();
    let (mut into, mut back) = (vec![0; 12000], vec![0; native.len()]);
    // SAFETY: 1999 pairs of 16 bytes are less than the memory.
    unsafe {
        assert_eq!(pair.pack_external(native.as_ptr(), 2, &mut into), Ok(12000));
        assert_eq!(pair.unpack_external(back.as_mut_ptr(), 2, &into), Ok(12000));
    }
    assert_eq!(into[..12], [7, 6, 5, 4, 3, 2, 1, 0, 11, 10, 9, 8]);
    // What the native form brings back, the external one does.
    let (mut packed, mut expected) = (vec![0; 12000], vec![0; native.len()]);
    // SAFETY: as above.
    unsafe {
        assert_eq!(pair.pack(native.as_ptr(), 2, 0, &mut packed[..]), 12000);
        assert_eq!(pair.unpack(expected.as_mut_ptr(), 2, 0, &packed[..]), 12000);
    }
    assert_eq!(back, expected);
    assert_ne!(packed, into);
}

#[test]
#[cfg(target_arch = "x86_64")]
fn external32_has_long_doubles_as_binary128() {
    let number = |sign_and_exponent: u16, significand: u64| {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&significand.to_le_bytes());
        bytes[8..10].copy_from_slice(&sign_and_exponent.to_le_bytes());
        bytes
    };
    for (native, high, low) in [
        // 0, 1, -1.5, the smallest denormal, the largest number, infinity, a quiet NaN.
        (number(0, 0), 0, 0),
        (number(0x3fff, 1 << 63), 0x3fff_0000_0000_0000, 0),
        (number(0xbfff, 3 << 62), 0xbfff_8000_0000_0000, 0),
        (number(0, 1), 0, 1 << 49),
        (
            number(0x7ffe, u64::MAX),
            0x7ffe_ffff_ffff_ffff,
            0xfffe_0000_0000_0000,
        ),
        (number(0x7fff, 1 << 63), 0x7fff_0000_0000_0000, 0),
        (number(0x7fff, 3 << 62), 0x7fff_8000_0000_0000, 0u64),
    ] {
        let (bytes, back) = external("MPI_LONG_DOUBLE", native);
        let wanted: Vec<u8> = [u64::to_be_bytes(high), u64::to_be_bytes(low)].concat();
        assert_eq!(bytes, wanted, "of {native:x?}");
        assert_eq!(back, native);
    }
    // With an exponent and without the integer bit it is none to the x87 either.
    for wrong in [number(0x3fff, 1 << 62), number(0xffff, 0), number(1, 7)] {
        let (bytes, back) = external("MPI_LONG_DOUBLE", wrong);
        let sign = bytes[0] & 0x80;
        let mut nan = [0; 16];
        nan[..3].copy_from_slice(&[sign | 0x7f, 0xff, 0x80]);
        assert_eq!(bytes, nan, "of {wrong:x?}");
        assert_eq!(back, number(u16::from(sign) << 8 | 0x7fff, 3 << 62));
    }
    // More fraction than the 80-bit format has: to nearest, ties to even, carrying into the exponent.
    let unpack = |high: u64, low: u64| {
        let mut native = [0; 16];
        let bytes = [high.to_be_bytes(), low.to_be_bytes()].concat();
        // SAFETY: one element in a variable of its size.
        unsafe { named("MPI_LONG_DOUBLE").unpack_external(native.as_mut_ptr(), 1, &bytes) }
            .expect("16 bytes");
        native
    };
    assert_eq!(unpack(0x3fff_0000_0000_0000, 1 << 48), number(0x3fff, 1 << 63));
    assert_eq!(
        unpack(0x3fff_0000_0000_0000, 3 << 48),
        number(0x3fff, (1 << 63) + 2)
    );
    assert_eq!(unpack(0x3fff_ffff_ffff_ffff, u64::MAX), number(0x4000, 1 << 63));
    assert_eq!(unpack(0x0000_ffff_ffff_ffff, u64::MAX), number(1, 1 << 63));
    assert_eq!(unpack(0x7fff_0000_0000_0000, 1), number(0x7fff, 3 << 62));
}

#[test]
fn types_are_found_by_size_and_precision() {
    assert_eq!(
        Datatype::match_size(TypeClass::Real, 8)
            .expect("there is one")
            .name(),
        "MPI_REAL8"
    );
    assert_eq!(
        Datatype::match_size(TypeClass::Complex, 8)
            .expect("there is one")
            .name(),
        "MPI_COMPLEX8"
    );
    assert_eq!(
        Datatype::match_size(TypeClass::Integer, 3).unwrap_err().class,
        Class::Arg
    );
    assert_eq!(TypeClass::from_abi(5).unwrap_err().class, Class::Arg);
    const UNDEFINED: i32 = -32766;
    for (precision, range, size) in [
        (6, 37, 4),
        (7, UNDEFINED, 8),
        (UNDEFINED, 300, 8),
        (18, 0, 16),
        (33, 0, 16),
    ] {
        let real = Datatype::f90_real(precision, range).expect("a kind");
        assert_eq!(real.size(), size);
        assert!(real.is_predefined() && real.is_committed() && real.combiner() == Combiner::F90Real);
        assert_eq!(real.contents().expect("unnamed").integers, [precision, range]);
        assert_eq!(
            Datatype::f90_complex(precision, range).expect("a kind").size(),
            2 * size
        );
    }
    assert_eq!(Datatype::f90_real(34, 0).unwrap_err().class, Class::Arg);
    assert_eq!(
        Datatype::f90_real(UNDEFINED, UNDEFINED).unwrap_err().class,
        Class::Arg
    );
    for (range, size) in [
        (0, 1),
        (2, 1),
        (3, 2),
        (4, 2),
        (9, 4),
        (10, 8),
        (18, 8),
        (19, 16),
        (38, 16),
    ] {
        assert_eq!(Datatype::f90_integer(range).expect("a kind").size(), size);
    }
    assert!(Datatype::f90_integer(39).is_err() && Datatype::f90_integer(-1).is_err());
}

#[test]
fn bytes_of_elements_is_the_inverse_of_elements_of() {
    let (byte, int64) = (Datatype::byte(), Datatype::int64());
    let mixed = Datatype::struct_(
        &[1, 2, 3],
        &[0, 8, 40],
        &[byte.clone(), int64.clone(), byte.clone()],
    )
    .unwrap();
    let nested = Datatype::vector(3, 2, 5, &mixed).unwrap();
    for datatype in [byte, int64, &mixed, &nested] {
        for elements in 0..100 {
            let bytes = datatype.bytes_of_elements(elements).unwrap();
            assert_eq!(datatype.elements_of(bytes), Some(elements), "{bytes} bytes");
        }
    }
    // One whole structure, 1 + 16 + 3 bytes of 6 elements, and the first byte of the next.
    assert_eq!(mixed.bytes_of_elements(7), Some(21));
    let empty = Datatype::contiguous(0, int64).unwrap();
    assert_eq!(
        (empty.bytes_of_elements(0), empty.bytes_of_elements(1)),
        (Some(0), None)
    );
    assert_eq!(int64.bytes_of_elements(u64::MAX / 8), None);
}

/// Only types with names are reduced by predefined operations (MPI 5.0, section 6.9.2).
#[test]
fn a_copy_is_no_element_of_a_reduction() {
    for name in ["MPI_INT", "MPI_DOUBLE_INT"] {
        assert!(named(name).element().is_some());
        for copy in [Datatype::dup(named(name)), Datatype::second(named(name))] {
            assert!(copy.element().is_none() && copy.size() == named(name).size());
            assert!(!copy.is_predefined() && named(name).is_predefined());
        }
    }
}

#[test]
fn arrays_of_other_lengths_than_there_are_dimensions_are_refused() {
    let int = named("MPI_INT");
    let refused = |made: crate::base::error::Result<Arc<Datatype>>, name: &str| {
        let error = made.expect_err(name);
        assert!(
            error.class == Class::Arg && error.message.contains(name),
            "{error}"
        );
    };
    refused(
        Datatype::subarray(&[4, 4], &[2], &[0, 0], Order::C, int),
        "array_of_subsizes has 1",
    );
    refused(
        Datatype::subarray(&[4, 4], &[2, 2], &[0], Order::C, int),
        "array_of_starts has 1",
    );
    let darray = |distribs: &[i32], dargs: &[i32], psizes: &[i32]| {
        Datatype::darray(1, 0, &[4, 4], distribs, dargs, psizes, Order::C, int)
    };
    // MPI_DISTRIBUTE_NONE, MPI_DISTRIBUTE_DFLT_DARG.
    assert!(darray(&[16, 16], &[19, 19], &[1, 1]).is_ok());
    refused(darray(&[16], &[19, 19], &[1, 1]), "array_of_distribs has 1");
    refused(darray(&[16, 16], &[19, 19, 19], &[1, 1]), "array_of_dargs has 3");
    refused(darray(&[16, 16], &[19, 19], &[1]), "array_of_psizes has 1");
}

#[test]
fn a_block_of_nothing_leaves_no_trace_in_a_signature() {
    let int = named("MPI_INT");
    let nothing = Datatype::contiguous(0, int).expect("a type of no bytes");
    let types = [nothing.clone(), int.clone(), nothing];
    let mixed = Datatype::struct_(&[1, 2, 3], &[0, 4, 0], &types).expect("a struct");
    assert_eq!((mixed.size(), mixed.uniform()), (8, int.uniform()));
    assert!(int.uniform().is_some());
}
