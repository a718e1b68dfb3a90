//! The contents of a program's `--help`, in the formats of other programs: `ci/install` asks for them by the hidden
//! option `--generate`.

use clap::{Command, ValueEnum};
use clap_complete::Shell;

/// The formats.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Page {
    /// The manual page, of section 1.
    Man,
    /// Completion for bash.
    Bash,
    /// Completion for zsh.
    Zsh,
    /// Completion for fish.
    Fish,
}

/// The section of the manual page about Weft's settings.
fn settings() -> String {
    let mut section = ".SH ENVIRONMENT\n".to_string();
    for setting in weft::tools::settings::TABLE {
        let help = setting.help.trim().replace('\\', "\\e").replace('-', "\\-");
        section += &format!(".TP\n\\fB{}\\fR\n\\&{help}\n", setting.name);
    }
    section
}

/// The page of a command.
pub fn render(page: Page, mut command: Command) -> String {
    let mut bytes = Vec::new();
    let shell = match page {
        Page::Man => {
            // Writing to a vector does not fail.
            let _ = clap_mangen::Man::new(command).render(&mut bytes);
            // The text below the options.
            let page = String::from_utf8_lossy(&bytes).replace(".SH EXTRA", ".SH NOTES");
            return page + &settings();
        }
        Page::Bash => Shell::Bash,
        Page::Zsh => Shell::Zsh,
        Page::Fish => Shell::Fish,
    };
    let name = command.get_name().to_string();
    clap_complete::generate(shell, &mut command, name, &mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}
