// What the operating system knows of a connection.
#pragma once

namespace infer::platform {

/// Whether the other side of a TCP connection has closed it or is gone, whatever it sent before
/// that and nobody has read.
bool is_closed_by_peer(int socket);

/// Lets the process have as many open files as the system allows.
void raise_open_files();

/// Has all threads share two heaps of the C library. Texts are made by one thread and freed by
/// another; with a heap for each thread memory would spread over all of them.
void share_heaps();
/// Gives memory that was freed back to the system, where the library kept it.
void give_back_memory();

}  // namespace infer::platform
