%% Run inside a private node: whoever may open the socket `control` in the node's folder may evaluate Erlang.
%% An answer takes a millisecond, where rabbitmqctl starts a virtual machine of its own for a second.
Evaluate = fun(Text) ->
    try
        {ok, Tokens, _} = erl_scan:string(unicode:characters_to_list(Text)),
        {ok, Expressions} = erl_parse:parse_exprs(Tokens),
        {value, Value, _} = erl_eval:exprs(Expressions, []),
        ["+", io_lib:format("~0tp", [Value])]
    catch
        Class:Reason -> ["-", io_lib:format("~0tp", [{Class, Reason}])]
    end
end,
Serve = fun Serve(Socket) ->
    case gen_tcp:recv(Socket, 0) of
        {ok, Text} ->
            ok = gen_tcp:send(Socket, unicode:characters_to_binary(Evaluate(Text))),
            Serve(Socket);
        {error, _} ->
            gen_tcp:close(Socket)
    end
end,
Accept = fun Accept(Listener) ->
    {ok, Socket} = gen_tcp:accept(Listener),
    Server = spawn(fun() -> receive go -> Serve(Socket) end end),
    ok = gen_tcp:controlling_process(Socket, Server),
    Server ! go,
    Accept(Listener)
end,
spawn(fun() ->
    _ = file:delete("control"),
    {ok, Listener} = gen_tcp:listen(0, [{ifaddr, {local, "control"}}, binary, {packet, 4}, {active, false}]),
    Accept(Listener)
end).
