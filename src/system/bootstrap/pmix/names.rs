//! Names of services, which a PMIx server keeps: each is a key, and the port its value, as Open MPI has them.

use std::ffi::c_char;
use std::ptr;

use super::values::{self, Said, text};
use super::{Pmix, check, failed, sys};
use crate::base::error::{Class, Error, Result};
use crate::err;

impl Pmix {
    pub(super) fn publish_service(&self, service: &str, port: &str) -> Result<()> {
        // The server replaces it.
        if self.look_up_service(service)?.is_some() {
            return Err(err!(Service, "the service '{service}' is published already"));
        }
        let port = text(port)?;
        let info = values::of_text(self.key_of(service)?, &port);
        // SAFETY: one attribute, whose text lives until the call returns.
        let status = unsafe { (self.library.PMIx_Publish)(&info, 1) };
        check(self.library, status, "PMIx_Publish").map_err(of_class(Class::Service))
    }

    pub(super) fn unpublish_service(&self, service: &str) -> Result<()> {
        // The server says nothing of one that is not there.
        if self.look_up_service(service)?.is_none() {
            return Err(err!(Service, "the service '{service}' is not published"));
        }
        let key = text(self.key_of(service)?)?;
        let mut keys = [key.as_ptr().cast_mut(), ptr::null_mut()];
        // SAFETY: a list of texts that ends with a null pointer, and no attributes.
        let status = unsafe { (self.library.PMIx_Unpublish)(keys.as_mut_ptr(), ptr::null(), 0) };
        check(self.library, status, "PMIx_Unpublish").map_err(of_class(Class::Service))
    }

    pub(super) fn look_up_service(&self, service: &str) -> Result<Option<String>> {
        let mut found = sys::Published {
            process: values::process("", 0)?,
            key: [0; sys::KEY_BYTES],
            value: values::nothing(),
        };
        for (to, from) in found
            .key
            .iter_mut()
            .zip(self.key_of(service).map_err(of_class(Class::Name))?.bytes())
        {
            *to = from as c_char;
        }
        // SAFETY: one thing to look for, with room for its value, and no attributes.
        let status = unsafe { (self.library.PMIx_Lookup)(&mut found, 1, ptr::null(), 0) };
        // SAFETY: none, or one that the library has allocated for the caller.
        let said = unsafe { values::take_out(found.value) };
        match (status, said) {
            (sys::SUCCESS, Some(Said::Text(port))) => Ok(Some(port)),
            (sys::SUCCESS, Some(_)) => Err(err!(
                Name,
                "what is published as '{service}' is no name of a port"
            )),
            (sys::SUCCESS | sys::NOT_FOUND | sys::PARTIAL_SUCCESS, _) => Ok(None),
            (sys::NOT_SUPPORTED, _) => Err(err!(
                Name,
                "the launcher of this job keeps no names; Weft's mpiexec, Hydra and prterun do"
            )),
            (status, _) => Err(of_class(Class::Name)(failed(self.library, status, "PMIx_Lookup"))),
        }
    }

    /// The key, if there can be one.
    fn key_of<'a>(&self, service: &'a str) -> Result<&'a str> {
        if self.over {
            return Err(err!(
                Service,
                "the launcher of this job takes no requests after the end of the first session"
            ));
        }
        match service.len() {
            1..sys::KEY_BYTES if !service.contains('\0') => Ok(service),
            len => Err(err!(
                Service,
                "the name of a service has {len} bytes: with the launcher of this job, 1 to {} are possible",
                sys::KEY_BYTES - 1
            )),
        }
    }
}

fn of_class(class: Class) -> impl Fn(Error) -> Error {
    move |error| Error { class, ..error }
}
