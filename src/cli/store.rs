//! Owns `store`: a running one at a glance; a stopped one checked, exported, made of an export; and a group's offsets accepted into it.

use super::{
    args::StoreCommand,
    operations::{client, directory},
    output::{Failure, Output, print},
    progress::Progress,
    serve::settings,
};
use crate::{
    admin::look::Status,
    config::{Config, key_secret},
    runner,
    store::{
        Imported, Partition,
        sled::{
            self,
            transfer::{self, Secrets},
        },
    },
};
use serde_json::{Value, json};
use std::path::Path;

pub(super) async fn run(command: StoreCommand, config: Option<&Path>, output: Output) -> Result<(), Failure> {
    match command {
        StoreCommand::Status { at } => print(&client(&at, config)?.status().await?, output, status_text),
        StoreCommand::Verify { at } => verify(&directory(&at, config)?, output),
        StoreCommand::Export { file, at } => export(&directory(&at, config)?, &file, output),
        StoreCommand::Import { file, exported_key_secret_file, at } => {
            let exported = exported_key_secret_file.map(|file| key_secret("--exported-key-secret-file", &file)).transpose()?;
            let new = Config::load_store(config, std::env::vars_os())?.key_secret()?;
            import(&file, &directory(&at, config)?, &Secrets { exported, new }, output)
        }
        StoreCommand::Adopt { target, offset, reason } => adopt(&target, offset, &reason, config, output),
    }
}

fn verify(directory: &Path, output: Output) -> Result<(), Failure> {
    let progress = Progress::begin(output);
    let report = sled::verify_watched(directory, &mut |step| progress.step(step))?;
    progress.end();
    let offsets = |(partition, marks): (&Partition, &crate::store::Marks)| {
        (partition.to_string(), json!({ "watermark": marks.watermark, "committed": marks.committed, "adopted": marks.adopted }))
    };
    let adoption = |(partition, offset, reason): &(Partition, i64, String)| json!({ "partition": partition.to_string(), "offset": offset, "reason": reason });
    let all = json!({
        "sound": report.is_sound(),
        "store": report.store_id,
        "cluster": report.binding.as_ref().map(|(cluster, _)| cluster),
        "group": report.binding.as_ref().map(|(_, group)| group),
        "key_secret": report.secret.map(|secret| secret.to_string()),
        "operations": report.operations,
        "notes": report.notes,
        "unresolved": report.unresolved,
        "parked": report.parked,
        "parked_bytes": report.parked_bytes,
        "incidents": report.incidents,
        "partitions": report.marks.iter().map(offsets).collect::<serde_json::Map<_, _>>(),
        "adoptions": report.adoptions.iter().map(adoption).collect::<Vec<_>>(),
        "imported": imported(report.imported.as_ref()),
        "problems": report.problems,
        "problems_total": report.problems_total,
    });
    print(&all, output, |_| report.to_string())?;
    if report.is_sound() { Ok(()) } else { Err(Failure::damaged(report.problems_total)) }
}

fn imported(imported: Option<&Imported>) -> Value {
    let Some(imported) = imported else { return Value::Null };
    let unverified = imported.unverified.iter().map(|(partition, watermark)| (partition.to_string(), json!({ "from": watermark })));
    json!({ "from": imported.from, "exported_ms": imported.exported.0, "unverified": unverified.collect::<serde_json::Map<_, _>>() })
}

/// Standard input and output are no files that can be checked, or named once they are whole.
fn check_file(file: &Path) -> Result<(), Failure> {
    if file.as_os_str() == "-" { Err(Failure::usage("FILE has to be a file; - is not one")) } else { Ok(()) }
}

fn export(directory: &Path, file: &Path, output: Output) -> Result<(), Failure> {
    check_file(file)?;
    let progress = Progress::begin(output);
    let exported = transfer::export(directory, file, &mut |step| progress.step(step))?;
    progress.end();
    let all = json!({
        "file": file,
        "store": exported.store_id,
        "cluster": exported.binding.as_ref().map(|(cluster, _)| cluster),
        "group": exported.binding.as_ref().map(|(_, group)| group),
        "exported_ms": exported.at.0,
        "entries": exported.entries,
        "bytes": exported.bytes,
        "operations": exported.operations,
        "unresolved": exported.unresolved,
        "parked": exported.parked,
    });
    print(&all, output, |_| {
        format!(
            "{} holds store {}: {} operations, {} unresolved attempts, {} parked records; {} entries, {} bytes
             once it is imported elsewhere, this store must never run again",
            file.display(),
            exported.store_id,
            exported.operations,
            exported.unresolved,
            exported.parked,
            exported.entries,
            exported.bytes,
        )
    })
}

fn import(file: &Path, directory: &Path, secrets: &Secrets, output: Output) -> Result<(), Failure> {
    check_file(file)?;
    let progress = Progress::begin(output);
    let filled = transfer::import(file, directory, secrets, &mut |step| progress.step(step))?;
    progress.end();
    let (report, origin) = (&filled.report, &filled.imported);
    let all = json!({
        "store": report.store_id,
        "entries": filled.entries,
        "operations": report.operations,
        "unresolved": report.unresolved,
        "parked": report.parked,
        "imported": imported(Some(origin)),
    });
    print(&all, output, |_| {
        let mut text = format!(
            "{} is new store {}, made of store {}: {} operations, {} unresolved attempts, {} parked records",
            directory.display(),
            report.store_id,
            origin.from,
            report.operations,
            report.unresolved,
            report.parked,
        );
        if !origin.unverified.is_empty() {
            text.push_str(&format!(
                "\nunverified, as the exported store may have gone on: {}\n\
                 make sure that it never runs again, then accept an offset for each with `store adopt TOPIC[/PARTITION] --reason …`; \
                 until then no start",
                origin.partitions(),
            ));
        }
        text
    })
}

fn adopt(target: &str, offset: Option<i64>, reason: &str, config: Option<&Path>, output: Output) -> Result<(), Failure> {
    let config = Config::load(config, std::env::vars_os())?;
    let wanted = match target.rsplit_once('/') {
        Some((topic, number)) => (topic, Some(number.parse().map_err(|_| Failure::usage("TOPIC/PARTITION needs a number"))?)),
        None => (target, None),
    };
    let offsets: Vec<(i32, i64)> = match (wanted, offset) {
        ((_, Some(number)), Some(offset)) => vec![(number, offset)],
        ((_, None), Some(_)) => return Err(Failure::usage("--offset needs TOPIC/PARTITION")),
        ((topic, number), None) => {
            let committed = runner::committed(&settings(&config, &[]), topic).map_err(|error| Failure::new(error.exit_code(), &error))?;
            committed.into_iter().filter(|(found, _)| number.is_none_or(|number| number == *found)).collect()
        }
    };
    if offsets.is_empty() {
        let remedy =
            "a partition without one starts at the store's watermark, or at kafka.first_start; after an import name it with --offset";
        return Err(Failure::set_up(format!("group {:?} has committed nothing for {target:?}", config.kafka.group), remedy));
    }
    let adopted = offsets.iter().map(|(number, offset)| {
        let partition = Partition { topic: wanted.0.into(), number: *number };
        sled::adopt(&config.store.directory, &partition, *offset, reason)?;
        Ok(json!({ "partition": partition.to_string(), "offset": offset }))
    });
    let adopted = adopted.collect::<Result<Vec<_>, Failure>>()?;
    print(&adopted, output, |_| {
        let lines = offsets.iter().map(|(number, offset)| format!("{}/{number} adopted at {offset}, for the next start", wanted.0));
        lines.collect::<Vec<_>>().join("\n")
    })
}

fn status_text(status: &Status) -> String {
    let mut text = format!(
        "store {} (claim {})\noperations {}, in doubt {}, with parked records {}, disputed {}, superseded {}, reopened and waiting {}\n\
         duplicate effects {}\nbytes {} (parked {}), free on the disk {}\n",
        status.store,
        status.claim,
        status.operations,
        status.in_doubt,
        status.parked,
        status.disputed,
        status.superseded,
        status.reopened_waiting,
        status.duplicate_effects,
        status.store_bytes,
        status.parked_bytes,
        status.disk_free_bytes,
    );
    if let Some(pressure) = &status.pressure {
        text.push_str(&format!("AT A BOUND: {pressure}\n"));
    }
    let shown = |offset: &Option<i64>| offset.map_or_else(|| "-".into(), |offset| offset.to_string());
    for (partition, (watermark, committed)) in &status.partitions {
        text.push_str(&format!("{partition}: complete below {}, committed {}\n", shown(watermark), shown(committed)));
    }
    text
}
