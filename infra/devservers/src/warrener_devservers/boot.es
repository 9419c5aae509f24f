%% Evaluated before RabbitMQ boots: hides the plugins that are neither enabled nor needed by those that are.
%% The node would search their folders for each module that it loads, and read all of their configuration
%% schemas: a third of a start. Changes nothing where the files of an application cannot be read.
Links = "plugins",
Folders = fun(Library) -> [Folder || Folder <- code:get_path(), lists:prefix(Library ++ "/", Folder)] end,
Directory = fun(Folder) -> filename:dirname(Folder) end,
Application = fun(Folder) -> list_to_atom(hd(string:split(filename:basename(Directory(Folder)), "-", trailing))) end,
Require = fun Require(Name, Found) ->
    case lists:member(Name, Found) of
        true ->
            Found;
        false ->
            {ok, [{application, Name, Facts}]} = file:consult(code:where_is_file(atom_to_list(Name) ++ ".app")),
            Needed = [proplists:get_value(Key, Facts, []) || Key <- [applications, included_applications]],
            lists:foldl(Require, [Name | Found], lists:append(Needed))
    end
end,
Link = fun(Folder) ->
    ok = file:make_symlink(Directory(Folder), filename:join(Links, filename:basename(Directory(Folder))))
end,
try
    [Library | _] = string:lexemes(os:getenv("ERL_LIBS"), ":"),
    {ok, [Enabled]} = file:consult("enabled_plugins"),
    Needed = lists:foldl(Require, [], [rabbit | Enabled]),
    {Shown, Hidden} = lists:partition(fun(Folder) -> lists:member(Application(Folder), Needed) end, Folders(Library)),
    _ = file:del_dir_r(Links),
    ok = file:make_dir(Links),
    lists:foreach(Link, Shown),
    lists:foreach(fun code:del_path/1, Hidden),
    os:putenv("RABBITMQ_PLUGINS_DIR", filename:absname(Links))
catch
    Class:Reason -> io:format("All plugins stay in the search path: ~0tp~n", [{Class, Reason}])
end.
