//! Requests: completed by number, from 1 where C counts from 0. What an operation received into a copy of an array section goes to the
//! section here.

use std::slice::from_ref;

use crate::abi::{Handle, Int, Logical, Request, SUCCESS, Status, UNDEFINED};
use crate::bindings::Library;
use crate::convert::{array, handles, length, logical, set, status, statuses, store_handles};
use crate::sections::pending;

/// An index for Fortran.
fn from_one(index: Int) -> Int {
    if index == UNDEFINED { index } else { index + 1 }
}

/// `MPI_Wait` (section 3.7.3).
pub unsafe fn wait<A: Library>(request: *mut Int, status_out: *mut Status, ierror: *mut Int) {
    unsafe {
        let taken = pending::take(from_ref(&*request));
        let mut request_c = Request::from_int(*request);
        let error = A::MPI_Wait(&mut request_c, status(status_out));
        *request = request_c.to_int();
        taken.end(from_ref(&*request), error, |_| true);
        set(ierror, error);
    }
}

/// `MPI_Test` (section 3.7.3).
pub unsafe fn test<A: Library>(
    request: *mut Int,
    flag: *mut Logical,
    status_out: *mut Status,
    ierror: *mut Int,
) {
    unsafe {
        let taken = pending::take(from_ref(&*request));
        let mut request_c = Request::from_int(*request);
        let mut done = 0;
        let error = A::MPI_Test(&mut request_c, &mut done, status(status_out));
        *request = request_c.to_int();
        taken.end(from_ref(&*request), error, |_| done != 0);
        *flag = logical(done);
        set(ierror, error);
    }
}

/// `MPI_Waitall` (section 3.7.5).
pub unsafe fn waitall<A: Library>(
    count: *const Int,
    array_of_requests: *mut Int,
    array_of_statuses: *mut Status,
    ierror: *mut Int,
) {
    unsafe {
        let taken = pending::take(array(array_of_requests, length((*count).into())));
        let mut requests = handles::<Request>(array_of_requests, length((*count).into()));
        let error = A::MPI_Waitall(*count, requests.as_mut_ptr(), statuses(array_of_statuses));
        store_handles(array_of_requests, &requests);
        taken.end(array(array_of_requests, requests.len()), error, |_| true);
        set(ierror, error);
    }
}

/// `MPI_Testall` (section 3.7.5).
pub unsafe fn testall<A: Library>(
    count: *const Int,
    array_of_requests: *mut Int,
    flag: *mut Logical,
    array_of_statuses: *mut Status,
    ierror: *mut Int,
) {
    unsafe {
        let taken = pending::take(array(array_of_requests, length((*count).into())));
        let mut requests = handles::<Request>(array_of_requests, length((*count).into()));
        let mut done = 0;
        let error = A::MPI_Testall(
            *count,
            requests.as_mut_ptr(),
            &mut done,
            statuses(array_of_statuses),
        );
        store_handles(array_of_requests, &requests);
        taken.end(array(array_of_requests, requests.len()), error, |_| done != 0);
        *flag = logical(done);
        set(ierror, error);
    }
}

/// `MPI_Waitany` (section 3.7.5).
pub unsafe fn waitany<A: Library>(
    count: *const Int,
    array_of_requests: *mut Int,
    index: *mut Int,
    status_out: *mut Status,
    ierror: *mut Int,
) {
    unsafe {
        let taken = pending::take(array(array_of_requests, length((*count).into())));
        let mut requests = handles::<Request>(array_of_requests, length((*count).into()));
        let mut which = UNDEFINED;
        let error = A::MPI_Waitany(*count, requests.as_mut_ptr(), &mut which, status(status_out));
        store_handles(array_of_requests, &requests);
        taken.end(array(array_of_requests, requests.len()), error, |index| {
            index as Int == which
        });
        *index = from_one(which);
        set(ierror, error);
    }
}

/// `MPI_Testany` (section 3.7.5).
pub unsafe fn testany<A: Library>(
    count: *const Int,
    array_of_requests: *mut Int,
    index: *mut Int,
    flag: *mut Logical,
    status_out: *mut Status,
    ierror: *mut Int,
) {
    unsafe {
        let taken = pending::take(array(array_of_requests, length((*count).into())));
        let mut requests = handles::<Request>(array_of_requests, length((*count).into()));
        let (mut which, mut done) = (UNDEFINED, 0);
        let error = A::MPI_Testany(
            *count,
            requests.as_mut_ptr(),
            &mut which,
            &mut done,
            status(status_out),
        );
        store_handles(array_of_requests, &requests);
        taken.end(array(array_of_requests, requests.len()), error, |index| {
            done != 0 && index as Int == which
        });
        *index = from_one(which);
        *flag = logical(done);
        set(ierror, error);
    }
}

/// `MPI_Waitsome` (section 3.7.5).
pub unsafe fn waitsome<A: Library>(
    incount: *const Int,
    array_of_requests: *mut Int,
    outcount: *mut Int,
    array_of_indices: *mut Int,
    array_of_statuses: *mut Status,
    ierror: *mut Int,
) {
    unsafe {
        let taken = pending::take(array(array_of_requests, length((*incount).into())));
        let mut requests = handles::<Request>(array_of_requests, length((*incount).into()));
        *outcount = 0;
        let error = A::MPI_Waitsome(
            *incount,
            requests.as_mut_ptr(),
            outcount,
            array_of_indices,
            statuses(array_of_statuses),
        );
        store_handles(array_of_requests, &requests);
        taken.end(array(array_of_requests, requests.len()), error, |index| {
            is_listed(index, array_of_indices, *outcount)
        });
        count_from_one(array_of_indices, *outcount);
        set(ierror, error);
    }
}

/// `MPI_Testsome` (section 3.7.5).
pub unsafe fn testsome<A: Library>(
    incount: *const Int,
    array_of_requests: *mut Int,
    outcount: *mut Int,
    array_of_indices: *mut Int,
    array_of_statuses: *mut Status,
    ierror: *mut Int,
) {
    unsafe {
        let taken = pending::take(array(array_of_requests, length((*incount).into())));
        let mut requests = handles::<Request>(array_of_requests, length((*incount).into()));
        *outcount = 0;
        let error = A::MPI_Testsome(
            *incount,
            requests.as_mut_ptr(),
            outcount,
            array_of_indices,
            statuses(array_of_statuses),
        );
        store_handles(array_of_requests, &requests);
        taken.end(array(array_of_requests, requests.len()), error, |index| {
            is_listed(index, array_of_indices, *outcount)
        });
        count_from_one(array_of_indices, *outcount);
        set(ierror, error);
    }
}

/// Whether a request is among those whose indices C stored.
unsafe fn is_listed(index: usize, indices: *const Int, count: Int) -> bool {
    count != UNDEFINED
        && unsafe { array(indices, length(count.into())) }
            .iter()
            .any(|&listed| listed as usize == index)
}

/// The indices that C stored, for Fortran.
unsafe fn count_from_one(indices: *mut Int, count: Int) {
    if count != UNDEFINED {
        for index in 0..length(count.into()) {
            unsafe { *indices.add(index) += 1 };
        }
    }
}

/// `MPI_Request_free` (section 3.7.3).
pub unsafe fn request_free<A: Library>(request: *mut Int, ierror: *mut Int) {
    unsafe {
        let number = *request;
        let taken = pending::take(from_ref(&number));
        let idle = taken.are_idle(number);
        let mut request_c = Request::from_int(number);
        let error = A::MPI_Request_free(&mut request_c);
        *request = request_c.to_int();
        taken.freed(number, error, idle);
        set(ierror, error);
    }
}

/// `MPI_Start` (section 3.9).
pub unsafe fn start<A: Library>(request: *mut Int, ierror: *mut Int) {
    unsafe {
        pending::start(from_ref(&*request));
        let mut request_c = Request::from_int(*request);
        let error = A::MPI_Start(&mut request_c);
        *request = request_c.to_int();
        set(ierror, error);
    }
}

/// `MPI_Startall` (section 3.9).
pub unsafe fn startall<A: Library>(count: *const Int, array_of_requests: *mut Int, ierror: *mut Int) {
    unsafe {
        pending::start(array(array_of_requests, length((*count).into())));
        let mut requests = handles::<Request>(array_of_requests, length((*count).into()));
        let error = A::MPI_Startall(*count, requests.as_mut_ptr());
        store_handles(array_of_requests, &requests);
        set(ierror, error);
    }
}

/// `MPI_Request_get_status` (section 3.7.6).
pub unsafe fn request_get_status<A: Library>(
    request: *const Int,
    flag: *mut Logical,
    status_out: *mut Status,
    ierror: *mut Int,
) {
    unsafe {
        let mut done = 0;
        let error = A::MPI_Request_get_status(Request::from_int(*request), &mut done, status(status_out));
        pending::completed(from_ref(&*request), error, |_| done != 0);
        if error == SUCCESS {
            *flag = logical(done);
        }
        set(ierror, error);
    }
}

/// `MPI_Request_get_status_any` (section 3.7.6).
pub unsafe fn request_get_status_any<A: Library>(
    count: *const Int,
    array_of_requests: *const Int,
    index: *mut Int,
    flag: *mut Logical,
    status_out: *mut Status,
    ierror: *mut Int,
) {
    unsafe {
        let requests = handles::<Request>(array_of_requests, length((*count).into()));
        let (mut which, mut done) = (UNDEFINED, 0);
        let error = A::MPI_Request_get_status_any(
            *count,
            requests.as_ptr(),
            &mut which,
            &mut done,
            status(status_out),
        );
        pending::completed(array(array_of_requests, requests.len()), error, |index| {
            done != 0 && index as Int == which
        });
        if error == SUCCESS {
            *index = from_one(which);
            *flag = logical(done);
        }
        set(ierror, error);
    }
}

/// `MPI_Request_get_status_all` (section 3.7.6).
pub unsafe fn request_get_status_all<A: Library>(
    count: *const Int,
    array_of_requests: *const Int,
    flag: *mut Logical,
    array_of_statuses: *mut Status,
    ierror: *mut Int,
) {
    unsafe {
        let requests = handles::<Request>(array_of_requests, length((*count).into()));
        let mut done = 0;
        let error =
            A::MPI_Request_get_status_all(*count, requests.as_ptr(), &mut done, statuses(array_of_statuses));
        pending::completed(array(array_of_requests, requests.len()), error, |_| done != 0);
        if error == SUCCESS {
            *flag = logical(done);
        }
        set(ierror, error);
    }
}

/// `MPI_Request_get_status_some` (section 3.7.6).
pub unsafe fn request_get_status_some<A: Library>(
    incount: *const Int,
    array_of_requests: *const Int,
    outcount: *mut Int,
    array_of_indices: *mut Int,
    array_of_statuses: *mut Status,
    ierror: *mut Int,
) {
    unsafe {
        let requests = handles::<Request>(array_of_requests, length((*incount).into()));
        *outcount = 0;
        let error = A::MPI_Request_get_status_some(
            *incount,
            requests.as_ptr(),
            outcount,
            array_of_indices,
            statuses(array_of_statuses),
        );
        pending::completed(array(array_of_requests, requests.len()), error, |index| {
            is_listed(index, array_of_indices, *outcount)
        });
        count_from_one(array_of_indices, *outcount);
        set(ierror, error);
    }
}
