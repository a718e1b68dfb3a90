//! Chapter 10: info objects.

use std::ffi::{OsStr, c_char, c_int};
use std::os::unix::ffi::OsStrExt as _;
use std::sync::{Arc, OnceLock};

use crate::abi::common::arguments;
use crate::abi::common::arguments::{give, read, text};
use crate::abi::common::constants::*;
use crate::abi::common::objects::{self, new_info};
use crate::abi::common::procedure::mpi;
use crate::abi::common::types::*;
use crate::base::error::Result;
use crate::err;
use crate::objects::info::Info;

/// `MPI_INFO_ENV` (section 11.2.1): how the program was started, as far as the launcher says.
pub fn environment() -> Arc<Info> {
    static ENVIRONMENT: OnceLock<Arc<Info>> = OnceLock::new();
    ENVIRONMENT
        .get_or_init(|| {
            let mut entries = Vec::new();
            let mut arguments = std::env::args_os().map(|argument| argument.to_string_lossy().into_owned());
            if let Some(command) = arguments.next() {
                entries.push(("command".to_string(), command));
                let rest: Vec<String> = arguments.collect();
                if !rest.is_empty() {
                    entries.push(("argv".to_string(), rest.join(" ")));
                }
            }
            if let Ok(directory) = std::env::current_dir() {
                entries.push(("wdir".to_string(), directory.to_string_lossy().into_owned()));
            }
            entries.push(("arch".to_string(), std::env::consts::ARCH.to_string()));
            entries.retain(|(_, value)| value.len() <= MPI_MAX_INFO_VAL as usize);
            Arc::new(Info::of(entries))
        })
        .clone()
}

/// A key argument.
///
/// # Safety
/// The pointer is null or a string of the user's.
unsafe fn key<'a>(from: *const c_char) -> Result<&'a str> {
    // SAFETY: the caller's pointer is null or a string that ends with a zero byte.
    let key = unsafe { text(from, "key") }.map_err(|error| crate::Error {
        class: crate::Class::InfoKey,
        ..error
    })?;
    let key = key.trim();
    if key.is_empty() || key.len() >= MPI_MAX_INFO_KEY as usize {
        return Err(err!(
            InfoKey,
            "key has {} bytes, but must have 1 to {} (MPI_MAX_INFO_KEY - 1)",
            key.len(),
            MPI_MAX_INFO_KEY - 1
        ));
    }
    Ok(key)
}

mpi! {
    /// Section 10.
    small fn MPI_Info_create(info: *mut MPI_Info) always {
        // SAFETY: null or a handle of the user's.
        unsafe { give(info, new_info(Info::default())?, "info") }
    }

    /// Section 10, `MPI_Info_create_env`: the arguments are those of the process anyway.
    small fn MPI_Info_create_env(_argc: c_int, _argv: *mut *mut c_char, info: *mut MPI_Info) always {
        // SAFETY: null or a handle of the user's.
        unsafe { give(info, new_info(Info::of(environment().entries()))?, "info") }
    }

    /// Section 10.
    small fn MPI_Info_dup(info: MPI_Info, newinfo: *mut MPI_Info) always {
        let copy = Info::of(objects::info(info)?.entries());
        // SAFETY: null or a handle of the user's.
        unsafe { give(newinfo, new_info(copy)?, "newinfo") }
    }

    /// Section 10.
    small fn MPI_Info_free(info: *mut MPI_Info) always {
        // SAFETY: null or a handle of the user's.
        let handle = unsafe { read(info, "info") }?;
        if handle == MPI_INFO_ENV {
            return Err(err!(Info, "MPI_INFO_ENV can't be freed"));
        }
        objects::info(handle)?;
        objects::INFOS.remove(handle);
        // SAFETY: read from above.
        unsafe { info.write(MPI_INFO_NULL) };
        Ok(())
    }

    /// Section 10.
    small fn MPI_Info_set(info: MPI_Info, key: *const c_char, value: *const c_char) always {
        let info = objects::info(info)?;
        // SAFETY: null or strings of the user's.
        let (key, value) = unsafe { (self::key(key)?, arguments::bytes(value, "value")) };
        let value = value.map_err(|error| crate::Error { class: crate::Class::InfoValue, ..error })?;
        if value.len() >= MPI_MAX_INFO_VAL as usize {
            return Err(err!(
                InfoValue,
                "the value of '{key}' has {} bytes, but must have at most {} (MPI_MAX_INFO_VAL - 1)",
                value.len(),
                MPI_MAX_INFO_VAL - 1
            ));
        }
        info.set(key, OsStr::from_bytes(value));
        Ok(())
    }

    /// Section 10.
    small fn MPI_Info_delete(info: MPI_Info, key: *const c_char) always {
        let info = objects::info(info)?;
        // SAFETY: null or a string of the user's.
        let key = unsafe { self::key(key) }?;
        match info.delete(key) {
            true => Ok(()),
            false => Err(err!(InfoNokey, "the info object has no key '{key}'")),
        }
    }

    /// Section 10.
    small fn MPI_Info_get_nkeys(info: MPI_Info, nkeys: *mut c_int) always {
        // SAFETY: null or an `int` of the user's.
        unsafe { give(nkeys, objects::info(info)?.len() as c_int, "nkeys") }
    }

    /// Section 10.
    small fn MPI_Info_get_nthkey(info: MPI_Info, n: c_int, key: *mut c_char) always {
        let info = objects::info(info)?;
        let found = usize::try_from(n).ok().and_then(|n| info.key(n));
        let found = found.ok_or_else(|| err!(Arg, "n is {n}, but the info object has {} keys", info.len()))?;
        let mut len = 0;
        // SAFETY: the standard asks for MPI_MAX_INFO_KEY bytes.
        unsafe { arguments::give_text(key, MPI_MAX_INFO_KEY as usize, &mut len, &found, "key") }
    }

    /// Section 10. `buflen` counts the zero byte; it returns the length that is needed.
    small fn MPI_Info_get_string(info: MPI_Info, key: *const c_char, buflen: *mut c_int, value: *mut c_char,
        flag: *mut c_int) always {
        let info = objects::info(info)?;
        // SAFETY: null or the user's.
        let (key, room) = unsafe { (self::key(key)?, read(buflen, "buflen")?) };
        if room < 0 {
            return Err(err!(Arg, "buflen is {room}, but must not be negative"));
        }
        let found = info.value(key);
        if let Some(found) = &found {
            let mut len = 0;
            if room > 0 {
                // SAFETY: the user gives room for `buflen` bytes.
                unsafe { arguments::give_bytes(value, room as usize, &mut len, found.as_bytes(), "value") }?;
            }
            // SAFETY: read from above.
            unsafe { buflen.write(found.len() as c_int + 1) };
        }
        // SAFETY: null or an `int` of the user's.
        unsafe { give(flag, found.is_some().into(), "flag") }
    }

    /// Section 16.3 (deprecated). `valuelen` does not count the zero byte.
    small fn MPI_Info_get(info: MPI_Info, key: *const c_char, valuelen: c_int, value: *mut c_char,
        flag: *mut c_int) always {
        let info = objects::info(info)?;
        // SAFETY: null or a string of the user's.
        let key = unsafe { self::key(key) }?;
        if valuelen < 0 {
            return Err(err!(Arg, "valuelen is {valuelen}, but must not be negative"));
        }
        let found = info.value(key);
        if let Some(found) = &found {
            let mut len = 0;
            // SAFETY: the user gives room for `valuelen` bytes and a zero.
            unsafe { arguments::give_bytes(value, valuelen as usize + 1, &mut len, found.as_bytes(), "value") }?;
        }
        // SAFETY: null or an `int` of the user's.
        unsafe { give(flag, found.is_some().into(), "flag") }
    }

    /// Section 16.3 (deprecated).
    small fn MPI_Info_get_valuelen(info: MPI_Info, key: *const c_char, valuelen: *mut c_int, flag: *mut c_int)
        always {
        let info = objects::info(info)?;
        // SAFETY: null or a string of the user's.
        let found = info.value(unsafe { self::key(key) }?);
        if let Some(found) = &found {
            // SAFETY: null or an `int` of the user's.
            unsafe { give(valuelen, found.len() as c_int, "valuelen") }?;
        }
        // SAFETY: null or an `int` of the user's.
        unsafe { give(flag, found.is_some().into(), "flag") }
    }
}
