//! The measurements for people.

use std::fmt;

use super::{Course, Found, Row};

const HEADING: &str = "policy                         load  1/mu   1/nu  servers      wait  waiting  setup   idle  watts  wasted  messages";

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mean = |rate: f64| {
            if rate > 0.0 {
                format!("{:.4}", 1.0 / rate).trim_end_matches('0').trim_end_matches('.').to_owned()
            } else {
                "-".to_owned()
            }
        };
        write!(
            f,
            "{:<28} {:>6.2} {:>5} {:>6} {:>8} {:>9.5} {:>7.2}% {:>5.1}% {:>5.1}% {:>6.1} {:>6.1}% {:>9.3}",
            self.policy,
            self.lambda,
            mean(self.mu),
            mean(self.nu),
            self.servers,
            self.mean_wait,
            100.0 * self.fraction_waiting,
            100.0 * self.setup_fraction,
            100.0 * self.idle_fraction,
            self.power_per_server_w,
            100.0 * self.wasted,
            self.messages_per_task,
        )
    }
}

impl fmt::Display for Course {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let half = self.distance.half().map_or_else(String::new, |half| format!(" ± {half:.4}"));
        write!(
            f,
            "{:>8} servers: {:.4}{half} from the fluid curve at most, times √N {:.2}",
            self.servers, self.distance.mean, self.distance_root_n
        )
    }
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = [
            ("More and more servers (Figure 3)", &self.convergence),
            ("The standby time (Figure 4)", &self.standby),
            ("Beside others", &self.rivals),
            ("Setups aborted, in the long run", &self.aborted),
        ];
        for (title, rows) in parts {
            writeln!(f, "{title}\n{HEADING}")?;
            for row in rows {
                let warm = if row.warmup > 0.0 { "  warm" } else { "" };
                writeln!(f, "{row}{warm}")?;
            }
            writeln!(f)?;
        }
        writeln!(f, "A path beside the fluid limit (Figure 2)")?;
        self.fluid.iter().try_for_each(|course| writeln!(f, "{course}"))
    }
}
