//! User simulators: the script's manners, the strategies against a scripted server, a human who types.
#![expect(clippy::unwrap_used, reason = "tests")]

mod common;

use std::io::Read as _;
use std::net::TcpListener;

use common::{Reply, Server, completion};
use hone_arena::chat_client::{ChatClient, ChatSpec};
use hone_arena::users::{
    GREETING, HumanUser, LlmUser, Prompts, Script, ScriptedUser, Strategy, Topic, User, UserEnd, UserTurn,
};
use hone_trace::{Boundary, Seed};
use serde_json::{Value, json};

/// A server that replies with these texts.
fn saying(replies: &[&str]) -> Server {
    Server::start(replies.iter().map(|reply| Reply::Http(200, completion(reply))).collect())
}

fn spec(server: &Server) -> ChatSpec {
    let spec = json!({"url": server.url, "model": "m", "deadline_s": 20.0, "retries": 2, "temperature": 1.0});
    serde_json::from_value(spec).unwrap()
}

fn simulated(server: &Server, strategy: Strategy) -> LlmUser {
    let client = ChatClient::new(spec(server)).unwrap();
    LlmUser::new(client, strategy, Prompts::default(), "You are Yusuf.", Seed::root(1))
}

/// The texts of the messages of a request.
fn messages(server: &Server, request: usize) -> Vec<String> {
    let requests = server.requests.lock().unwrap();
    let messages = requests[request].1["messages"].as_array().unwrap();
    messages.iter().map(|message| message["content"].as_str().unwrap().to_owned()).collect()
}

fn said(text: &str) -> UserTurn {
    UserTurn { text: text.into(), end: None }
}

fn over() -> UserTurn {
    UserTurn { text: String::new(), end: Some(UserEnd::Stop) }
}

#[test]
fn the_tokens_end_a_conversation() {
    assert_eq!(UserTurn::read("Thanks! ###STOP###"), UserTurn { text: "Thanks!".into(), end: Some(UserEnd::Stop) });
    assert_eq!(UserTurn::read("###TRANSFER###").end, Some(UserEnd::Transfer));
    assert_eq!(UserTurn::read("###OUT-OF-SCOPE###").end, Some(UserEnd::OutOfScope));
    assert_eq!(UserTurn::read("##STOP##").end, None);
}

fn script() -> Script {
    let topic = |asked: &[&str], answer: &str| Topic {
        asked: asked.iter().map(|&word| word.into()).collect(),
        answer: answer.into(),
    };
    Script {
        goals: vec!["I want to return the lamp of order #W1.".into(), "Also cancel order #W2.".into()],
        knows: vec![
            topic(&["email", "e-mail"], "My email is yusuf@example.com."),
            topic(&["zip", "zip code"], "My zip is 19122."),
            topic(&["reason"], "I ordered it by mistake."),
        ],
        declines: vec!["paypal".into()],
    }
}

#[tokio::test]
async fn a_scripted_user_answers_confirms_and_ends() {
    let mut user = ScriptedUser::new(script());
    for (agent, expected) in [
        (GREETING, said("I want to return the lamp of order #W1.")),
        (
            "Could you provide your email, or your name and zip code?",
            said("My email is yusuf@example.com. My zip is 19122."),
        ),
        ("What is your mother's maiden name?", said("I do not know that.")),
        ("The refund goes to PayPal. Do you confirm (yes/no)?", said("No, please do not do that.")),
        ("I will return the lamp, refund to the card. Please confirm (yes/no).", said("Yes, please go ahead.")),
        ("The return has been requested. Anything else?", said("Also cancel order #W2.")),
        ("Why? Please tell me the reason.", said("I ordered it by mistake.")),
        ("Order #W2 has been cancelled.", over()),
    ] {
        assert_eq!(user.reply(agent).await.unwrap(), expected, "{agent}");
    }
}

#[tokio::test]
async fn a_scripted_user_leaves_an_agent_that_gets_nowhere() {
    for words in ["Hm.", "And then?", "Do you confirm?", "your email?", "\u{0130}\u{1F600} (yes/no)"] {
        let mut user = ScriptedUser::new(script());
        user.reply(GREETING).await.unwrap();
        let mut turns = 0;
        while user.reply(words).await.unwrap().end.is_none() {
            turns += 1;
            assert!(turns < 10, "{words:?} goes on forever");
        }
    }
}

#[tokio::test]
async fn an_llm_user_keeps_the_conversation_from_its_own_side() {
    let server = saying(&["Hello, I want to return a lamp.", "yusuf@example.com", "###STOP###"]);
    let mut user = simulated(&server, Strategy::Llm);
    assert_eq!(user.reply(GREETING).await.unwrap(), said("Hello, I want to return a lamp."));
    assert_eq!(user.reply("Your email?").await.unwrap(), said("yusuf@example.com"));
    assert_eq!(user.reply("Done.").await.unwrap(), over());
    assert_eq!(server.asked(), 3, "one completion per message and none thrown away");
    let last = messages(&server, 2);
    assert!(last[0].contains("Instruction: You are Yusuf."));
    assert_eq!(last[1..], [GREETING, "Hello, I want to return a lamp.", "Your email?", "yusuf@example.com", "Done."]);
    let (_, request) = &server.requests.lock().unwrap()[0];
    assert_eq!(request["messages"][2]["role"], Value::Null);
    assert_eq!((&request["temperature"], request["seed"].is_u64()), (&json!(1.0), true));
}

#[tokio::test]
async fn react_says_only_the_response() {
    let thought = "Thought:\nBetter not to tell my email yet.\n\nUser Response:\nHello.";
    let server = saying(&["Thought: no response at all", thought, "Thought: done\nUser Response: ###STOP###"]);
    let mut user = simulated(&server, Strategy::React);
    assert_eq!(user.reply(GREETING).await.unwrap(), said("Hello."));
    assert_eq!(user.reply("Bye.").await.unwrap(), over());
    assert_eq!(messages(&server, 2)[2], thought, "it remembers its thoughts");

    let mute = saying(&["hm", "hm", "hm"]);
    let fault = simulated(&mute, Strategy::React).reply(GREETING).await.unwrap_err();
    assert_eq!((fault.boundary, fault.transient), (Boundary::UserSimulator, true));
}

#[tokio::test]
async fn verify_samples_until_accepted_and_remembers_what_it_said() {
    let server = saying(&["I am the agent.", "False: not true to the role", "Hello.", "true", "Yes.", "true"]);
    let mut user = simulated(&server, Strategy::Verify);
    assert_eq!(user.reply(GREETING).await.unwrap(), said("Hello."));
    assert_eq!(user.reply("Sure?").await.unwrap(), said("Yes."));
    assert_eq!(messages(&server, 4)[1..], [GREETING, "Hello.", "Sure?"], "the rejected message was never said");
    assert!(messages(&server, 5)[0].contains("Agent: Hi! How can I help you today?\nCustomer: Hello.\nAgent: Sure?"));

    let strict = saying(&["a", "false", "b", "false", "c", "next", "true"]);
    let mut user = simulated(&strict, Strategy::Verify);
    assert_eq!(user.reply(GREETING).await.unwrap(), said("c"), "after three samples the last one is said");
    user.reply("Go on.").await.unwrap();
    assert_eq!(messages(&strict, 5)[1..], [GREETING, "c", "Go on."], "and remembered");
}

#[tokio::test]
async fn reflection_rewrites_once_and_falls_back_to_the_first() {
    let rewrite = "Reflection:\nIt plays the agent.\n\nResponse:\nHello.";
    let server = saying(&["How can I help you?", "false", rewrite, "true", "Bye.", "true"]);
    let mut user = simulated(&server, Strategy::Reflection);
    assert_eq!(user.reply(GREETING).await.unwrap(), said("Hello."));
    user.reply("Well?").await.unwrap();
    assert_eq!(messages(&server, 4)[1..], [GREETING, "Hello.", "Well?"]);

    let hopeless = saying(&["first", "false", rewrite, "false"]);
    assert_eq!(simulated(&hopeless, Strategy::Reflection).reply(GREETING).await.unwrap(), said("first"));
}

#[tokio::test]
async fn infrastructure_is_asked_again_and_a_refusal_is_not() {
    let busy = Reply::Http(503, "busy".to_owned());
    let server = Server::start(vec![busy.clone(), Reply::Close, Reply::Http(200, completion("Hello."))]);
    assert_eq!(simulated(&server, Strategy::Llm).reply(GREETING).await.unwrap(), said("Hello."));

    let down = Server::start(vec![busy.clone(), busy.clone(), busy]);
    let fault = simulated(&down, Strategy::Llm).reply(GREETING).await.unwrap_err();
    assert_eq!((fault.boundary, fault.transient), (Boundary::UserSimulator, true));
    assert!(fault.what.contains("503") && fault.what.contains("after 3 attempts"), "{fault}");

    let refused = Server::start(vec![Reply::Http(401, "no such key".into())]);
    let fault = simulated(&refused, Strategy::Llm).reply(GREETING).await.unwrap_err();
    assert!(!fault.transient && fault.what.contains("401"), "{fault}");

    for body in ["not json", "{}", "{\"choices\": []}"] {
        let odd = Server::start(vec![Reply::Http(200, body.into())]);
        assert!(!simulated(&odd, Strategy::Llm).reply(GREETING).await.unwrap_err().transient);
    }
    let endless = Server::start(vec![Reply::Http(200, completion(&"x".repeat(2 << 20)))]);
    assert!(simulated(&endless, Strategy::Llm).reply(GREETING).await.unwrap_err().what.contains("longer than"));
}

#[tokio::test]
async fn a_silent_server_meets_the_deadline() {
    let server = Server::start(vec![Reply::Hang]);
    let spec = ChatSpec { deadline_s: 0.2, ..spec(&server) };
    let client = ChatClient::new(spec).unwrap();
    let mut user = LlmUser::new(client, Strategy::Llm, Prompts::default(), "", Seed::root(1));
    let fault = user.reply(GREETING).await.unwrap_err();
    assert!(fault.transient && fault.what.contains("deadline: no reply within 0.2 s"), "{fault}");
}

#[tokio::test]
async fn a_key_is_sent_and_never_shown() {
    // PATH is set everywhere, and no server would echo its value by chance.
    let key = std::env::var("PATH").unwrap();
    let server = Server::start(vec![Reply::Http(400, format!("bad key: {key}"))]);
    let spec = ChatSpec { key_env: Some("PATH".into()), ..spec(&server) };
    let client = ChatClient::new(spec.clone()).unwrap();
    assert!(!format!("{client:?}").contains(&key));
    let mut user = LlmUser::new(client, Strategy::Llm, Prompts::default(), "", Seed::root(1));
    let fault = user.reply(GREETING).await.unwrap_err();
    assert!(!fault.what.contains(&key), "{fault}");
    assert!(server.requests.lock().unwrap()[0].0.contains(&format!("Bearer {key}")));
    let missing = ChatSpec { key_env: Some("HONE_NO_SUCH_VARIABLE".into()), ..spec };
    assert!(ChatClient::new(missing).unwrap_err().contains("HONE_NO_SUCH_VARIABLE"));
}

/// A handshake needs a provider of cryptography: one that was never installed would panic here.
#[tokio::test]
async fn https_opens_with_a_tls_handshake() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("https://{}/v1", listener.local_addr().unwrap());
    let server = std::thread::spawn(move || {
        let mut hello = [0; 3];
        listener.accept().unwrap().0.read_exact(&mut hello).unwrap();
        hello
    });
    let spec: ChatSpec = serde_json::from_value(json!({"url": url, "model": "m", "retries": 0})).unwrap();
    let mut user = LlmUser::new(ChatClient::new(spec).unwrap(), Strategy::Llm, Prompts::default(), "", Seed::root(1));
    let fault = user.reply(GREETING).await.unwrap_err();
    assert!(fault.what.contains("unreachable"), "{fault}");
    assert_eq!(server.join().unwrap(), [0x16, 3, 1], "a TLS record of a handshake");
}

/// tau-bench's own prompts load in place of ours.
#[test]
#[ignore = "needs tau-bench's data: CONTRIBUTING.md says how to get it"]
fn tau_bench_prompts_load() {
    let path = hone_testdata::third_party("data/tau/tau-bench/user_prompts.json");
    let text = std::fs::read_to_string(path).unwrap();
    let prompts: Prompts = serde_json::from_str(&text).unwrap();
    assert!(prompts.react_system.contains("User Response:") && prompts != Prompts::default());
}

#[tokio::test]
async fn a_human_types_and_ends_with_the_input() {
    let mut shown = Vec::new();
    let mut user = HumanUser::new(&b"hello there\r\nthanks ###STOP###\n"[..], &mut shown);
    assert_eq!(user.reply(GREETING).await.unwrap(), said("hello there"));
    assert_eq!(user.reply("Done.").await.unwrap(), UserTurn { text: "thanks".into(), end: Some(UserEnd::Stop) });
    assert_eq!(user.reply("Still there?").await.unwrap(), over());
    assert!(String::from_utf8(shown).unwrap().starts_with("agent: Hi! How can I help you today?\nyou: "));
}
