//! The drive by TLS: on a socket of this process, and as a program.

mod alike;
mod certificates;
mod commands;
mod cut_bodies;
mod handshakes;
mod http2;
mod http2_frames;
mod http2_memory;
mod plain;
mod program;
mod protocols;
mod secure_server;
mod shared_limit;
mod slow_links;
mod unread_answers;
