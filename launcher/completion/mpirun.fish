# SPDX-License-Identifier: BSD-3-Clause
# Completion of mpirun, mpiexec and weft_info for fish.  The options are those that the commands print themselves.

function __weft_options
    $argv[1] --help 2>/dev/null | string match -rg '^  (-.*)' | string replace -r '   .*' '' | string split ' ' | string match -r '^--?[A-Za-z][\w-]*$'
end

function __weft_settings
    weft_info --config 2>/dev/null | string match -rg '^ *WEFT_([A-Z_]*)=' | string lower
end

for command in mpirun mpiexec weft_info
    complete -c $command -n 'string match -q -- "-*" (commandline -ct)' -f -a "(__weft_options $command)"
end
for command in mpirun mpiexec
    complete -c $command -n 'test (commandline -poc)[-1] = --set' -f -a '(string join \n (__weft_settings)=)'
end
