//! `--shuffle`, `--filter` and `--slice`, in this order, as mini-swe-agent and SWE-agent have them.

use mswea_expression::Expression;

use crate::error::BatchError;
use crate::manifest::BatchInstance;
use crate::shuffle::shuffle;

/// Which instances are run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// A regular expression that has to match at the start of the id; empty: all.
    pub filter: String,
    /// `START:STOP:STEP`, as a slice of Python; empty: all.
    pub slice: String,
    /// Whether the order is that of Python's `shuffle` with the seed 42, after sorting by id.
    pub shuffle: bool,
}

/// An item that is selected by its id.
pub trait Picked {
    /// The id.
    fn id(&self) -> &str;
}

impl Picked for BatchInstance {
    fn id(&self) -> &str {
        &self.id
    }
}

impl Selection {
    /// Selects items, in the order in which the instances are begun.
    ///
    /// # Errors
    /// [`BatchError::Refused`] if the filter or the slice is invalid, or if no item is left.
    pub fn of<T: Picked>(&self, items: Vec<T>) -> Result<Vec<T>, BatchError> {
        self.of_told(items, &|_| {})
    }

    /// As [`Selection::of`]; `said` gets messages about the items that were left out, in the words
    /// of mini-swe-agent's log.
    ///
    /// # Errors
    /// [`BatchError::Refused`] in the cases of [`Selection::of`].
    pub fn of_told<T: Picked>(
        &self,
        mut items: Vec<T>,
        said: &dyn Fn(&str),
    ) -> Result<Vec<T>, BatchError> {
        let all = items.len();
        let tell = |what: &str, left: usize| {
            if left != all {
                said(&format!("Instance {what}: {all} -> {left} instances"));
            }
        };
        if self.shuffle {
            items.sort_by(|a, b| a.id().cmp(b.id()));
            shuffle(&mut items);
        }
        if !self.filter.is_empty() {
            let wrong = |error: &dyn std::fmt::Display| {
                BatchError::Refused(format!(
                    "`--filter {}`: the regular expression is wrong: {error}",
                    self.filter
                ))
            };
            let expression = Expression::new(&self.filter).map_err(|error| wrong(&error))?;
            let mut kept = Vec::new();
            for item in items {
                if expression
                    .begins(item.id())
                    .map_err(|error| wrong(&error))?
                {
                    kept.push(item);
                }
            }
            items = kept;
            tell("filter", items.len());
        }
        if !self.slice.is_empty() {
            items = slice(items, &self.slice)?;
            tell("slice", items.len());
        }
        if items.is_empty() {
            return Err(BatchError::Refused(match all {
                0 => "there are no instances".to_owned(),
                _ => format!(
                    "no instance is left of {all}: `--filter` ({}) has to match at the start of an id, and `--slice` ({}) counts what the filter has left",
                    shown(&self.filter),
                    shown(&self.slice)
                ),
            }));
        }
        Ok(items)
    }
}

fn shown(text: &str) -> String {
    match text {
        "" => "not given".to_owned(),
        text => format!("`{text}`"),
    }
}

/// A slice with Python's rules.
fn slice<T>(items: Vec<T>, text: &str) -> Result<Vec<T>, BatchError> {
    let wrong = |reason: &str| {
        BatchError::Refused(format!(
            "`--slice {text}`: {reason}; it is `STOP`, `START:STOP` or `START:STOP:STEP`, for example `0:50` or `-10:`"
        ))
    };
    let mut numbers = Vec::new();
    for part in text.split(':') {
        numbers.push(match part.trim() {
            "" => None,
            number => Some(
                number
                    .parse::<i64>()
                    .map_err(|_| wrong(&format!("`{number}` is no integer")))?,
            ),
        });
    }
    let (start, stop, step) = match numbers[..] {
        [stop] => (None, stop, None),
        [start, stop] => (start, stop, None),
        [start, stop, step] => (start, stop, step),
        _ => return Err(wrong("it has more than three parts")),
    };
    let step = step.unwrap_or(1);
    if step == 0 {
        return Err(wrong("the step is 0"));
    }
    let len = i64::try_from(items.len()).unwrap_or(i64::MAX);
    let (least, most) = if step > 0 { (0, len) } else { (-1, len - 1) };
    let place = |given: Option<i64>, open: i64| match given {
        None => open,
        Some(at) if at < 0 => at.saturating_add(len).clamp(least, most),
        Some(at) => at.clamp(least, most),
    };
    let (first, last) = if step > 0 {
        (least, most)
    } else {
        (most, least)
    };
    let (mut at, stop) = (place(start, first), place(stop, last));
    let mut items: Vec<Option<T>> = items.into_iter().map(Some).collect();
    let mut kept = Vec::new();
    while (step > 0 && at < stop) || (step < 0 && at > stop) {
        let item = usize::try_from(at).ok().and_then(|at| items.get_mut(at));
        kept.extend(item.and_then(Option::take));
        at = at.saturating_add(step);
    }
    Ok(kept)
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Picked for String {
        fn id(&self) -> &str {
            self
        }
    }

    fn ten() -> Vec<String> {
        (0..10).map(|i| format!("i{i:02}")).collect()
    }

    fn chosen(selection: &Selection) -> Result<Vec<usize>, String> {
        let chosen = selection.of(ten()).map_err(|error| error.to_string())?;
        Ok(chosen.iter().map(|id| id[1..].parse().unwrap()).collect())
    }

    #[test]
    fn slices() {
        for (slice, expected) in [
            ("", vec![0, 1, 2, 3, 4, 5, 6, 7, 8, 9]),
            ("3", vec![0, 1, 2]),
            (":2", vec![0, 1]),
            ("-2:", vec![8, 9]),
            ("1:8:3", vec![1, 4, 7]),
            ("::-1", vec![9, 8, 7, 6, 5, 4, 3, 2, 1, 0]),
            (" 1 : 3 ", vec![1, 2]),
            ("8:100", vec![8, 9]),
            ("-100:1", vec![0]),
            ("5:1:-2", vec![5, 3]),
        ] {
            let selection = Selection {
                slice: slice.to_owned(),
                ..Selection::default()
            };
            assert_eq!(chosen(&selection), Ok(expected), "{slice}");
        }
        for (slice, reason) in [
            ("a:b", "`a` is no integer"),
            ("::0", "step is 0"),
            ("1:2:3:4", "more than three"),
            ("5:2", "no instance is left of 10"),
        ] {
            let selection = Selection {
                slice: slice.to_owned(),
                ..Selection::default()
            };
            let error = chosen(&selection).unwrap_err();
            assert!(error.contains(reason), "{slice}: {error}");
        }
    }

    #[test]
    fn filters_match_at_the_start() {
        let filter = |filter: &str| {
            chosen(&Selection {
                filter: filter.to_owned(),
                ..Selection::default()
            })
        };
        assert_eq!(filter("i0[0-2]"), Ok(vec![0, 1, 2]));
        assert_eq!(filter("i01|i03"), Ok(vec![1, 3]));
        assert!(filter("0").unwrap_err().contains("no instance is left"));
        assert!(filter("(").unwrap_err().contains("`--filter (`"));
    }

    #[test]
    fn shuffle_then_filter_then_slice() {
        let selection = Selection {
            filter: "i0[0-5]".to_owned(),
            slice: "1:3".to_owned(),
            shuffle: true,
        };
        assert_eq!(chosen(&selection), Ok(vec![2, 5]));
        let ids = [
            "django__django-11099",
            "astropy__astropy-12907",
            "sympy__sympy-20590",
            "flask__flask-1",
            "psf__requests-2",
        ];
        let selection = Selection {
            shuffle: true,
            ..Selection::default()
        };
        let ids = selection.of(ids.map(str::to_owned).to_vec()).unwrap();
        let begin: Vec<&str> = ids.iter().map(|id| id.split('_').next().unwrap()).collect();
        assert_eq!(begin, ["psf", "django", "flask", "sympy", "astropy"]);
    }
}
