// How a file of specialisation constants is read here: constants.h.
#define CONSTANT(id, name, field, value) layout(constant_id = id) const uint name = value;
