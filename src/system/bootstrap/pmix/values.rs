//! Values as PMIx has them. All that comes from the server is checked: which type it is, and whether the number fits.

use std::ffi::{CStr, CString, c_char};

use weft_libfabric_sys::pmix as sys;

use crate::base::error::Result;
use crate::err;

/// What a server says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Said {
    /// A number, of any type: servers differ in which they use.
    Number(i128),
    /// A text.
    Text(String),
    /// Bytes.
    Bytes(Vec<u8>),
    /// Several texts.
    Texts(Vec<String>),
    /// Processes: the name of the namespace, and the rank there.
    Processes(Vec<(String, u32)>),
}

impl Said {
    /// The number, if it is one that fits.
    pub fn number<T: TryFrom<i128>>(&self) -> Option<T> {
        match self {
            Said::Number(number) => T::try_from(*number).ok(),
            _ => None,
        }
    }
}

/// A copy of a value; `None` if it is of another type than those of [`Said`], or is not complete.
///
/// # Safety
/// What the value points to is there.
pub(super) unsafe fn read(value: &sys::Value) -> Option<Said> {
    /// The first bytes of a number.
    fn first<const N: usize>(bytes: [u8; 8]) -> [u8; N] {
        std::array::from_fn(|at| bytes[at])
    }
    // SAFETY: all of the union was written, or its beginning and the rest is not looked at.
    let number = unsafe { value.data.number };
    Some(match value.kind {
        sys::INT8 => Said::Number(i8::from_ne_bytes(first(number)).into()),
        sys::UINT8 => Said::Number(u8::from_ne_bytes(first(number)).into()),
        sys::INT16 => Said::Number(i16::from_ne_bytes(first(number)).into()),
        sys::UINT16 => Said::Number(u16::from_ne_bytes(first(number)).into()),
        sys::INT | sys::INT32 => Said::Number(i32::from_ne_bytes(first(number)).into()),
        sys::UINT | sys::UINT32 | sys::PROC_RANK => Said::Number(u32::from_ne_bytes(first(number)).into()),
        sys::INT64 => Said::Number(i64::from_ne_bytes(number).into()),
        sys::UINT64 | sys::SIZE => Said::Number(u64::from_ne_bytes(number).into()),
        sys::STRING => {
            // SAFETY: the field that the type names.
            let string = unsafe { value.data.string };
            if string.is_null() {
                return None;
            }
            // SAFETY: not null, so it is a text (the caller's promise).
            Said::Text(unsafe { CStr::from_ptr(string) }.to_str().ok()?.to_string())
        }
        sys::BYTE_OBJECT => {
            // SAFETY: the field that the type names.
            let sys::ByteObject { bytes, size } = unsafe { value.data.object };
            if bytes.is_null() || isize::try_from(size).is_err() {
                return None;
            }
            // SAFETY: not null, and that long (the caller's promise).
            Said::Bytes(unsafe { std::slice::from_raw_parts(bytes.cast(), size) }.to_vec())
        }
        sys::PROC => {
            // SAFETY: the field that the type names.
            let process = unsafe { value.data.process };
            if process.is_null() {
                return None;
            }
            // SAFETY: not null, so it is there (the caller's promise).
            let process = unsafe { &*process };
            Said::Processes(vec![(namespace(process).ok()?, process.rank)])
        }
        sys::DATA_ARRAY => {
            // SAFETY: the field that the type names.
            let array = unsafe { value.data.array };
            if array.is_null() {
                return None;
            }
            // SAFETY: not null, so it is there (the caller's promise).
            return unsafe { read_array(&*array) };
        }
        _ => return None,
    })
}

/// The same of an array.
///
/// # Safety
/// As for [`read`].
unsafe fn read_array(array: &sys::DataArray) -> Option<Said> {
    if array.array.is_null() || array.size > isize::MAX as usize / size_of::<sys::Proc>() {
        return None;
    }
    match array.kind {
        sys::STRING => {
            // SAFETY: not null, and so many (the caller's promise).
            let texts =
                unsafe { std::slice::from_raw_parts(array.array.cast::<*const c_char>(), array.size) };
            let read = texts.iter().map(|&text| {
                // SAFETY: a text, if it is not null (the caller's promise).
                (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_str().ok())?
            });
            let texts: Option<Vec<&str>> = read.collect();
            Some(Said::Texts(texts?.into_iter().map(str::to_string).collect()))
        }
        sys::PROC => {
            // SAFETY: not null, and so many (the caller's promise).
            let processes =
                unsafe { std::slice::from_raw_parts(array.array.cast::<sys::Proc>(), array.size) };
            let read = processes
                .iter()
                .map(|process| Some((namespace(process).ok()?, process.rank)));
            read.collect::<Option<_>>().map(Said::Processes)
        }
        _ => None,
    }
}

/// The same of a value that the library has allocated for the caller, which is freed.
///
/// # Safety
/// It is such a value, and is not used any more.
pub(super) unsafe fn take(value: *mut sys::Value) -> Option<Said> {
    // SAFETY: it is there (the caller's promise).
    let said = unsafe { take_out(*value) };
    // SAFETY: the library's, and not used any more.
    unsafe { libc::free(value.cast()) };
    said
}

/// The same where only what the value points to is the library's.
///
/// # Safety
/// As for [`take`].
pub(super) unsafe fn take_out(value: sys::Value) -> Option<Said> {
    // SAFETY: what it points to is there (the caller's promise).
    let said = unsafe { read(&value) };
    // SAFETY: the library's, and not used any more.
    unsafe { free_inside(&value) };
    said
}

/// Frees what a value of the library's points to, if it is of a type of [`Said`].
///
/// # Safety
/// The library has allocated it for the caller, and it is not used any more.
unsafe fn free_inside(value: &sys::Value) {
    match value.kind {
        // SAFETY: by C's allocator, as all of PMIx is; here and below.
        sys::STRING => unsafe { libc::free(value.data.string.cast()) },
        // SAFETY: as above.
        sys::PROC => unsafe { libc::free(value.data.process.cast()) },
        // SAFETY: as above.
        sys::BYTE_OBJECT => unsafe { libc::free(value.data.object.bytes.cast()) },
        // SAFETY: as above.
        sys::DATA_ARRAY => unsafe { free_array(value.data.array) },
        _ => {}
    }
}

/// Frees an array that the library has allocated for the caller; what elements of other types than those of [`Said`] point to stays
/// allocated.
///
/// # Safety
/// It is such an array or null, and is not used any more.
unsafe fn free_array(array: *mut sys::DataArray) {
    if array.is_null() {
        return;
    }
    // SAFETY: it is there (the caller's promise).
    let copy = unsafe { *array };
    if copy.kind == sys::STRING && !copy.array.is_null() {
        for at in 0..copy.size {
            // SAFETY: one of the array's texts, by C's allocator.
            unsafe { libc::free((*copy.array.cast::<*mut c_char>().add(at)).cast()) };
        }
    }
    // SAFETY: by C's allocator, both.
    unsafe {
        libc::free(copy.array);
        libc::free(array.cast());
    }
}

/// The values of an answer to a query, all of which is freed.
///
/// # Safety
/// `infos` is null or has that many, which the library has allocated for the caller.
pub(super) unsafe fn take_infos(infos: *mut sys::Info, count: usize) -> Vec<Said> {
    if infos.is_null() {
        return Vec::new();
    }
    let said = (0..count).filter_map(|at| {
        // SAFETY: one of them.
        let copy = unsafe { (*infos.add(at)).value };
        // SAFETY: as above.
        let said = unsafe { read(&copy) };
        // SAFETY: the library's, and not used any more.
        unsafe { free_inside(&copy) };
        said
    });
    let said = said.collect();
    // SAFETY: by C's allocator.
    unsafe { libc::free(infos.cast()) };
    said
}

/// An attribute that is a text, which has to outlive it.
pub(super) fn of_text(key: &str, text: &CStr) -> sys::Info {
    let mut info = flag(key);
    info.value = sys::Value {
        kind: sys::STRING,
        data: sys::Data { room: [0; 3] },
    };
    info.value.data.string = text.as_ptr().cast_mut();
    info
}

/// A text that the library has allocated for the caller, which is freed.
///
/// # Safety
/// It is such a text or null, and is not used any more.
pub(super) unsafe fn take_text(text: *mut c_char) -> Option<String> {
    if text.is_null() {
        return None;
    }
    // SAFETY: a text (the caller's promise).
    let copy = unsafe { CStr::from_ptr(text) }.to_str().ok().map(str::to_string);
    // SAFETY: by C's allocator.
    unsafe { libc::free(text.cast()) };
    copy
}

/// A text for the library.
pub(super) fn text(text: &str) -> Result<CString> {
    CString::new(text).map_err(|_| err!(Other, "'{}' has a zero byte in it", text.escape_debug()))
}

/// A process, or with a wildcard all of a namespace.
pub(super) fn process(namespace: &str, rank: u32) -> Result<sys::Proc> {
    let mut process = sys::Proc {
        nspace: [0; sys::NAMESPACE_BYTES],
        rank,
    };
    if namespace.len() >= sys::NAMESPACE_BYTES {
        return Err(err!(
            Other,
            "the PMIx namespace has {} bytes: at most {} are expected",
            namespace.len(),
            sys::NAMESPACE_BYTES - 1
        ));
    }
    for (to, from) in process.nspace.iter_mut().zip(namespace.bytes()) {
        *to = from as c_char;
    }
    Ok(process)
}

/// The namespace of a process.
pub(super) fn namespace(process: &sys::Proc) -> Result<String> {
    let bytes: Vec<u8> = process
        .nspace
        .iter()
        .map(|&byte| byte as u8)
        .take_while(|&byte| byte != 0)
        .collect();
    String::from_utf8(bytes)
        .ok()
        .filter(|name| !name.is_empty() && name.len() < sys::NAMESPACE_BYTES)
        .ok_or_else(|| err!(Other, "the PMIx server gives the job no name that is a text"))
}

/// An attribute that is switched on.
pub(super) fn flag(key: &str) -> sys::Info {
    let mut info = sys::Info {
        key: [0; sys::KEY_BYTES],
        flags: 0,
        value: sys::Value {
            kind: sys::BOOL,
            data: sys::Data { room: [0; 3] },
        },
    };
    info.value.data.flag = true;
    // A zero byte stays.
    for (to, from) in info.key[..sys::KEY_BYTES - 1].iter_mut().zip(key.bytes()) {
        *to = from as c_char;
    }
    info
}

/// No value.
pub(super) fn nothing() -> sys::Value {
    sys::Value {
        kind: 0,
        data: sys::Data { room: [0; 3] },
    }
}

/// A value that points to `bytes`.
pub(super) fn bytes(bytes: &mut [u8]) -> sys::Value {
    let mut data = sys::Data { room: [0; 3] };
    data.object = sys::ByteObject {
        bytes: bytes.as_mut_ptr().cast(),
        size: bytes.len(),
    };
    sys::Value {
        kind: sys::BYTE_OBJECT,
        data,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(kind: u16, room: u64) -> Option<Said> {
        let data = sys::Data { room: [room, 0, 0] };
        // SAFETY: the types that are asked for here point to nothing, or are null.
        unsafe { read(&sys::Value { kind, data }) }
    }

    #[test]
    fn numbers_of_all_types_are_read_and_checked() {
        for kind in [
            sys::INT,
            sys::INT8,
            sys::INT16,
            sys::INT32,
            sys::INT64,
            sys::UINT,
            sys::UINT8,
            sys::UINT16,
            sys::UINT32,
            sys::UINT64,
            sys::SIZE,
            sys::PROC_RANK,
        ] {
            assert_eq!(
                said(kind, 7_u64.to_le()).unwrap().number::<u32>(),
                Some(7),
                "{kind}"
            );
        }
        assert_eq!(said(sys::INT, u64::MAX).unwrap().number::<i32>(), Some(-1));
        assert_eq!(said(sys::INT, u64::MAX).unwrap().number::<u32>(), None);
        assert_eq!(said(sys::UINT64, u64::MAX).unwrap().number::<u32>(), None);
        assert_eq!(Said::Text("7".into()).number::<u32>(), None);
    }

    #[test]
    fn arrays_of_texts_and_processes_are_read() {
        let said = |kind, array: *mut std::ffi::c_void, size| {
            let mut array = sys::DataArray { kind, size, array };
            let mut data = sys::Data { room: [0; 3] };
            data.array = &mut array;
            let value = sys::Value {
                kind: sys::DATA_ARRAY,
                data,
            };
            // SAFETY: all that it points to is there.
            unsafe { read(&value) }
        };
        let mut texts = [c"a".as_ptr(), c"b".as_ptr()];
        assert_eq!(
            said(sys::STRING, texts.as_mut_ptr().cast(), 2),
            Some(Said::Texts(vec!["a".into(), "b".into()]))
        );
        texts[1] = std::ptr::null();
        assert_eq!(said(sys::STRING, texts.as_mut_ptr().cast(), 2), None);
        let mut processes = [process("job", 3).unwrap(), process("job", 0).unwrap()];
        assert_eq!(
            said(sys::PROC, processes.as_mut_ptr().cast(), 2),
            Some(Said::Processes(vec![("job".into(), 3), ("job".into(), 0)]))
        );
        for (kind, size) in [(sys::PROC, usize::MAX), (sys::INT, 1)] {
            assert_eq!(said(kind, processes.as_mut_ptr().cast(), size), None);
        }
        assert_eq!(said(sys::PROC, std::ptr::null_mut(), 1), None);
    }

    #[test]
    fn what_is_no_value_is_none() {
        for kind in [
            0,
            sys::BOOL,
            sys::STRING,
            sys::BYTE_OBJECT,
            sys::PROC,
            sys::DATA_ARRAY,
            u16::MAX,
        ] {
            assert_eq!(said(kind, 0), None, "{kind}");
        }
        let mut byte = 0;
        let data = sys::Data {
            object: sys::ByteObject {
                bytes: (&raw mut byte),
                size: usize::MAX,
            },
        };
        let value = sys::Value {
            kind: sys::BYTE_OBJECT,
            data,
        };
        // SAFETY: a size that can't be true is refused before the bytes are looked at.
        let said = unsafe { read(&value) };
        assert_eq!(said, None);
    }

    #[test]
    fn bytes_come_back() {
        let mut card = vec![1, 0, 255];
        let value = bytes(&mut card);
        // SAFETY: the value points to `card`.
        let said = unsafe { read(&value) };
        assert_eq!(said, Some(Said::Bytes(vec![1, 0, 255])));
    }

    #[test]
    fn names_are_checked() {
        assert_eq!(namespace(&process("job@1", 3).unwrap()).unwrap(), "job@1");
        process(&"x".repeat(sys::NAMESPACE_BYTES), 0).err().unwrap();
        let full = sys::Proc {
            nspace: [b'x' as c_char; sys::NAMESPACE_BYTES],
            rank: 0,
        };
        namespace(&full).expect_err("it does not end");
        namespace(&process("", 0).unwrap()).expect_err("it is empty");
        text("a\0b").unwrap_err();
        assert_eq!(flag(&"k".repeat(600)).key.last(), Some(&0));
    }
}
