//! Owns `partitions`: what the socket is asked, and how its answers are told.

use super::{
    args::{PartitionArgs, PartitionsCommand, Word},
    operations::{client, done_text},
    output::{Failure, Output, plain, print, table},
};
use crate::admin::partitions::{PartitionRequest, PartitionView, PartitionWord, SkipRequest};
use std::path::Path;

pub(super) async fn run(command: PartitionsCommand, config: Option<&Path>, output: Output) -> Result<(), Failure> {
    match command {
        PartitionsCommand::List { at } => print(&client(&at, config)?.partitions().await?, output, |views| text(views)),
        PartitionsCommand::Pause(args) => change(PartitionWord::Pause, args, config, output).await,
        PartitionsCommand::Resume(args) => change(PartitionWord::Resume, args, config, output).await,
        PartitionsCommand::Skip { slot, word: Word { reason, by }, at } => {
            let done = client(&at, config)?.skip(&SkipRequest { slot, reason, by }).await?;
            print(&done, output, |done| format!("{}; the partition is read on", done_text(done)))
        }
    }
}

async fn change(act: PartitionWord, args: PartitionArgs, config: Option<&Path>, output: Output) -> Result<(), Failure> {
    let PartitionArgs { partition, word: Word { reason, by }, at } = args;
    let views = client(&at, config)?.partition(act, &PartitionRequest { partition, reason, by }).await?;
    print(&views, output, |views| text(views))
}

fn text(views: &[PartitionView]) -> String {
    if views.is_empty() {
        return "no partitions are assigned yet".into();
    }
    let shown = |offset: Option<i64>| offset.map_or_else(|| "-".into(), |offset| offset.to_string());
    let row = |view: &PartitionView| {
        let at = view.halted_at.clone().unwrap_or_else(|| "-".into());
        let cells = [view.partition.clone(), view.state.clone(), shown(view.watermark), shown(view.committed)];
        cells.into_iter().chain([view.in_flight.to_string(), at]).collect()
    };
    let rows: Vec<Vec<String>> = views.iter().map(row).collect();
    let table = table(&["PARTITION", "STATE", "WATERMARK", "COMMITTED", "IN FLIGHT", "HALTED AT"], &rows);
    let details = views.iter().filter_map(|view| Some(format!("\n{}: {}", view.partition, plain(view.detail.as_deref()?))));
    format!("{}{}", table.trim_end(), details.collect::<String>())
}
