//! A trajectory without a journal, whose steps are read when they are asked for: a file of hundreds of megabytes
//! is opened in a moment.

use std::path::Path;

use mswea_core::Usage;
use mswea_export::Conversation;
use mswea_record::trajectory::totals;

use crate::indexed::IndexedTrajectory;

/// About how many bytes of the file are read at once.
const AT_ONCE: usize = 4 << 20;

/// A trajectory, as far as it was read.
pub(crate) struct PagedTrajectory {
    /// None when all of it was read.
    rest: Option<IndexedTrajectory>,
    /// The first page that was not read.
    next: usize,
    so_far: Conversation,
    /// The tokens and the dollars of the replies so far.
    usage: Usage,
    cost: f64,
    /// A reply has no cost.
    lacks_costs: bool,
}

impl PagedTrajectory {
    /// Reads the file, and its first steps.
    ///
    /// # Errors
    /// A message if it can't be read, or is no trajectory.
    pub(crate) fn open(path: &Path) -> Result<Self, String> {
        Self::of(IndexedTrajectory::open(path)?)
    }

    fn of(run: IndexedTrajectory) -> Result<Self, String> {
        let mut this = Self {
            so_far: run.conversation(0..0)?,
            rest: Some(run),
            next: 0,
            usage: Usage::default(),
            cost: 0.0,
            lacks_costs: false,
        };
        this.read_more()?;
        Ok(this)
    }

    /// The conversation so far.
    pub(crate) fn so_far(&self) -> &Conversation {
        &self.so_far
    }

    /// How many pages were not read.
    pub(crate) fn unread(&self) -> usize {
        let rest = self.rest.as_ref();
        rest.map_or(0, |rest| rest.len() - self.next)
    }

    /// Reads further steps, if there are any.
    ///
    /// # Errors
    /// A message if they are in no known form; what is after them is not read.
    pub(crate) fn read_more(&mut self) -> Result<(), String> {
        let Some(run) = self.rest.take() else {
            return Ok(());
        };
        let mut end = run.end_within(self.next, AT_ONCE);
        let mut read = run.conversation(self.next..end);
        // What is before a mistake can be shown.
        while read.is_err() && end > self.next + 1 {
            end = self.next + (end - self.next) / 2;
            read = run.conversation(self.next..end);
        }
        let mut read = read.map_err(|why| match self.so_far.steps.len() {
            0 => why,
            // The page counts from its own beginning.
            steps => {
                let mistake = why.split_once(": ").map_or(why.as_str(), |(_, it)| it);
                format!("after step {}: {mistake}", steps - 1)
            }
        })?;
        let so_far = &mut self.so_far;
        if !run.has_sums() {
            for step in read.steps.iter().filter(|step| step.is_reply) {
                self.usage.add(&step.usage.clone().unwrap_or_default());
                self.cost += step.cost.unwrap_or_default();
                self.lacks_costs |= step.cost.is_none();
            }
            // The head has the sums of the whole run, but not in every trajectory.
            let info = &run.head()["info"];
            (so_far.cost, so_far.usage) = totals(info, &self.usage, self.cost, self.lacks_costs);
            if read.exit_status.is_some() {
                so_far.exit_status = read.exit_status;
                so_far.submission = read.submission;
            }
        }
        so_far.steps.append(&mut read.steps);
        self.next = end;
        self.rest = Some(run).filter(|run| end < run.len());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use mswea_export::from_records;
    use mswea_record::trajectory::records_from_trajectory;
    use serde_json::{Value, json};

    use super::*;

    fn mini(steps: usize, bytes: usize) -> Value {
        let mut messages = vec![
            json!({"role": "system", "content": "s"}),
            json!({"role": "user", "content": "t"}),
        ];
        for step in 0..steps {
            let response = json!({"usage": {"prompt_tokens": 10, "completion_tokens": step}});
            let extra = json!({"cost": 0.5, "response": response, "actions": [{"command": "ls"}]});
            messages.push(json!({"role": "assistant", "content": "a", "extra": extra}));
            messages.push(
                json!({"role": "user", "content": "x".repeat(bytes), "extra": {"returncode": 0}}),
            );
        }
        let end = json!({"exit_status": "Submitted", "submission": "patch"});
        messages.push(json!({"role": "exit", "content": "", "extra": end}));
        json!({"info": {"exit_status": "Submitted"}, "messages": messages})
    }

    fn paged(text: &str) -> PagedTrajectory {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.traj.json");
        std::fs::write(&path, text).unwrap();
        PagedTrajectory::open(&path).unwrap()
    }

    #[test]
    fn what_is_read_in_parts_is_what_is_read_at_once() {
        let stats = json!({"api_calls": 9, "instance_cost": 4.75});
        let own = json!({"run_id": "r", "usage": {"input_tokens": 100, "output_tokens": 50}});
        for head in [
            json!({}),
            json!({"model_stats": stats}),
            json!({"model_stats": stats, "mswea": own}),
        ] {
            let mut value = mini(9, 1 << 20);
            if let (Some(to), Some(head)) = (value["info"].as_object_mut(), head.as_object()) {
                to.extend(head.clone());
            }
            let whole = from_records(&records_from_trajectory(&value, "").unwrap());
            let mut run = paged(&value.to_string());
            let (first, unread) = (run.so_far().steps.len(), run.unread());
            assert!((3..8).contains(&first) && unread > 0, "{first} {unread}");
            while run.unread() > 0 {
                run.read_more().unwrap();
            }
            let so_far = run.so_far();
            assert_eq!((&so_far.usage, so_far.cost), (&whole.usage, whole.cost));
            assert_eq!(so_far.exit_status, whole.exit_status);
            assert_eq!(so_far.submission, "patch");
            let texts = |run: &Conversation| {
                let steps = run.steps.iter();
                steps
                    .map(|it| (it.text.clone(), it.calls.len(), it.shown.len()))
                    .collect::<Vec<_>>()
            };
            assert_eq!(texts(so_far), texts(&whole));
        }
    }

    #[test]
    fn what_is_before_a_mistake_is_shown() {
        let step = json!({"source": "agent", "message": "a"});
        let value = json!({"schema_version": "ATIF-v1.7", "agent": {}, "steps": [step, step, {"source": 7}, step],
            "final_metrics": {"total_cost_usd": 1.5, "total_prompt_tokens": 9}});
        let mut run = paged(&value.to_string());
        let error = loop {
            if let Err(error) = run.read_more() {
                break error;
            }
        };
        assert!(error.starts_with("after step 0: `source`"), "{error}");
        let so_far = run.so_far();
        assert_eq!((so_far.steps.len(), run.unread()), (1, 0));
        assert_eq!((so_far.cost, so_far.usage.input_tokens), (Some(1.5), 9));
    }
}
