"""The doors into the harnesses, one module each; what a door is stands in `xsessionctl.shim.door`."""
