%% Processes whose stacks are known, for so many seconds of CPU time: erl -noshell -s chains main SECONDS
-module(chains).
-behaviour(gen_server).
-export([main/1, spinner/1, init/1, handle_call/3, handle_cast/2]).

main([Seconds]) ->
    {ok, Server} = gen_server:start_link(?MODULE, none, []),
    Until = runtime() + 1000 * list_to_integer(atom_to_list(Seconds)),
    spawn_link(?MODULE, spinner, [Until]),
    run(Server, Until).

runtime() -> element(1, erlang:statistics(runtime)).

run(Server, Until) ->
    work(Server),
    case runtime() >= Until of
        true -> halt(0);
        false -> run(Server, Until)
    end.

spinner(Until) ->
    N = recurse(5),
    case runtime() >= Until of
        true -> N;
        false -> spinner(Until)
    end.

work(Server) ->
    A = recurse(9),
    B = catching(),
    C = listed(),
    D = closure(),
    E = mapped(),
    F = sorted(),
    G = calling(Server),
    H = native(),
    I = collected(),
    J = evaluated(),
    K = deep(),
    lists:sum([A, B, C, D, E, F, G, H, I, J, K]).

recurse(0) -> spin(20000, 1);
recurse(N) -> 1 + recurse(N - 1).

catching() ->
    try
        raising(spin(10000, 1))
    catch
        throw:N -> 1 + spin(10000, N)
    end.

raising(N) ->
    M = spin(10000, N),
    throw(M).

listed() -> length([spin(1000, N) || N <- lists:seq(1, 20), N > 1]).

closure() ->
    1 + call(fun(N) -> 1 + spin(20000, N) end).

call(F) -> 1 + F(1).

mapped() -> lists:sum(lists:map(fun(N) -> 1 + spin(2000, N) end, lists:seq(1, 10))).

sorted() -> length(lists:sort(fun(A, B) -> spin(1000, 1) > 0 andalso A =< B end, [5, 3, 9, 1, 7, 2])).

calling(Server) -> 1 + gen_server:call(Server, spin, infinity).

native() ->
    %% in C all the time
    Term = lists:seq(1, 2000),
    N = erlang:phash2([Term, Term, Term]),
    N + byte_size(erlang:md5(term_to_binary([Term, Term]))).

collected() -> 1 + length(build(3000, [])).

build(0, List) -> List;
build(N, List) -> build(N - 1, [{N, [N | N]} | List]).

evaluated() -> 1 + apply(?MODULE, init, [1000]).

%% as what goes along a list without a tail call
deep() -> 1 + deepening(5000).

deepening(0) -> spin(20000, 1);
deepening(N) -> 1 + deepening(N - 1).

spin(0, N) -> N;
spin(Left, N) -> spin(Left - 1, (N * 31 + Left) band 16#ffffff).

init(none) -> {ok, none};
init(N) -> 1 + spin(N, 1).

handle_call(spin, _From, State) ->
    N = spin(20000, 1),
    {reply, N, State}.

handle_cast(_, State) -> {noreply, State}.
