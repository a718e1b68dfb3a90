//! `WEFT_CHECK=1`: a report of what a program leaves behind at `MPI_Finalize` (MPI 5.0 section 11.2.2).

use crate::abi::common::objects;
use crate::engine::describe::listed;
use crate::instance::Instance;
use crate::objects::communicator::Communicator;
use crate::objects::group::processes;

/// Prints how many objects of a kind are left, and which.
pub fn point_out(instance: &Instance, kind: &str, how: &str, lines: Vec<String>) {
    let rank = instance.job().rank;
    let number = lines.len();
    let (s, are) = if number == 1 { ("", "is") } else { ("s", "are") };
    let mut text = match number {
        0 => return,
        _ => format!("[weft] rank {rank}: at MPI_Finalize {number} {kind}{s} {are} {how}:\n"),
    };
    for line in listed(lines.into_iter(), &format!("{kind}s")) {
        text += &format!("[weft] rank {rank}:   {line}\n");
    }
    // In one write, so that the lines of several ranks do not mix.
    let _ = std::io::Write::write_all(&mut std::io::stderr(), text.as_bytes());
}

/// Prints what the program has made in the World Model and not completed, freed or closed.
pub fn point_out_what_is_left(instance: &Instance) {
    let names = instance.names();
    let mut requests = instance
        .engine()
        .held_requests(&*names, |context| !Communicator::is_of_world(instance, context));
    let persistent = objects::PERSISTENT.find_all(|request| request.communicator().group().session() == 0);
    requests.extend(persistent.iter().map(|request| {
        let communicator = objects::name_of_communicator(request.communicator());
        format!("persistent request on {communicator}, not freed")
    }));
    point_out(instance, "request", "not completed", requests);

    let files = objects::FILES.find_all(|file| file.group().session() == 0);
    let files = files.iter().map(|file| file.describe()).collect();
    point_out(instance, "file", "not closed", files);

    let windows = objects::WINDOWS.find_all(|window| window.communicator().group().session() == 0);
    let windows = windows.iter().map(|window| {
        let size = processes(window.communicator().group().size());
        match window.name().lock().as_str() {
            "" => format!("window of {size}"),
            name => format!("{name}, of {size}"),
        }
    });
    point_out(instance, "window", "not freed", windows.collect());

    let communicators = objects::COMMUNICATORS.find_all(|communicator| communicator.group().session() == 0);
    let communicators = communicators.iter().map(|communicator| {
        let name = objects::name_of_communicator(communicator);
        format!("{name}, of {}", processes(communicator.group().size()))
    });
    point_out(instance, "communicator", "not freed", communicators.collect());

    let groups = objects::GROUPS.find_all(|group| group.session() == 0);
    let groups = groups.iter().map(|group| match group.given().times {
        0 | 1 => format!("group of {}", processes(group.size())),
        // It was given out so often, and not freed.
        times => format!("group of {}, with {times} references", processes(group.size())),
    });
    point_out(instance, "group", "not freed", groups.collect());

    let datatypes = objects::DATATYPES.find_all(|_| true);
    let datatypes = datatypes
        .iter()
        .map(|datatype| format!("{} of {} bytes", datatype.describe(), datatype.size()));
    point_out(instance, "datatype", "not freed", datatypes.collect());

    let ops = objects::OPS.find_all(|_| true);
    point_out(
        instance,
        "operation",
        "not freed",
        ops.iter().map(|_| "made by MPI_Op_create".into()).collect(),
    );

    let infos = objects::INFOS.find_all(|_| true);
    let infos = infos.iter().map(|info| {
        let entries = info.entries();
        let keys: Vec<&str> = entries.iter().map(|(key, _)| key.as_str()).collect();
        format!("info with the keys: {}", keys.join(", "))
    });
    point_out(instance, "info", "not freed", infos.collect());
}
