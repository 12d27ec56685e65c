//! User simulators: the script's manners, the strategies against a scripted server, a human who types.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use hone_arena::chat_client::{ChatClient, ChatSpec};
use hone_arena::users::{
    GREETING, HumanUser, LlmUser, Prompts, Script, ScriptedUser, Strategy, Topic, User, UserEnd, UserTurn,
};
use hone_trace::{Boundary, Seed};
use serde_json::{Value, json};

/// A server that gives these replies in order and records its requests. An empty reply hangs up.
struct Server {
    url: String,
    asked: Arc<Mutex<Vec<(String, Value)>>>,
}

impl Server {
    fn start(replies: Vec<(u16, String)>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/v1", listener.local_addr().unwrap());
        let asked = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&asked);
        std::thread::spawn(move || {
            for (status, body) in replies {
                let (mut stream, _) = listener.accept().unwrap();
                seen.lock().unwrap().push(read_request(&stream));
                if !body.is_empty() {
                    let head = format!("HTTP/1.1 {status} X\r\ncontent-length: {}\r\nconnection: close", body.len());
                    let _ = write!(stream, "{head}\r\n\r\n{body}");
                }
            }
        });
        Self { url, asked }
    }

    /// Replies with these texts.
    fn saying(replies: &[&str]) -> Self {
        Self::start(replies.iter().map(|reply| (200, completion(reply))).collect())
    }

    fn user(&self, strategy: Strategy) -> LlmUser {
        let client = ChatClient::new(self.spec()).unwrap();
        LlmUser::new(client, strategy, Prompts::default(), "You are Yusuf.", Seed::root(1))
    }

    fn spec(&self) -> ChatSpec {
        let spec = json!({"url": self.url, "model": "m", "deadline_s": 20.0, "retries": 2, "temperature": 1.0});
        serde_json::from_value(spec).unwrap()
    }

    /// The texts of the messages of a request.
    fn messages(&self, request: usize) -> Vec<String> {
        let asked = self.asked.lock().unwrap();
        let messages = asked[request].1["messages"].as_array().unwrap();
        messages.iter().map(|message| message["content"].as_str().unwrap().to_owned()).collect()
    }

    fn count(&self) -> usize {
        self.asked.lock().unwrap().len()
    }
}

fn completion(content: &str) -> String {
    json!({"choices": [{"message": {"role": "assistant", "content": content}, "finish_reason": "stop"}]}).to_string()
}

fn read_request(stream: &TcpStream) -> (String, Value) {
    let mut reader = BufReader::new(stream);
    let (mut head, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        if line.trim().is_empty() {
            break;
        }
        if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        head.push_str(&line);
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    (head, serde_json::from_slice(&body).unwrap())
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
    let server = Server::saying(&["Hello, I want to return a lamp.", "yusuf@example.com", "###STOP###"]);
    let mut user = server.user(Strategy::Llm);
    assert_eq!(user.reply(GREETING).await.unwrap(), said("Hello, I want to return a lamp."));
    assert_eq!(user.reply("Your email?").await.unwrap(), said("yusuf@example.com"));
    assert_eq!(user.reply("Done.").await.unwrap(), over());
    assert_eq!(server.count(), 3, "one completion per message and none thrown away");
    let last = server.messages(2);
    assert!(last[0].contains("Instruction: You are Yusuf."));
    assert_eq!(last[1..], [GREETING, "Hello, I want to return a lamp.", "Your email?", "yusuf@example.com", "Done."]);
    let (_, request) = &server.asked.lock().unwrap()[0];
    assert_eq!(request["messages"][2]["role"], Value::Null);
    assert_eq!((&request["temperature"], request["seed"].is_u64()), (&json!(1.0), true));
}

#[tokio::test]
async fn react_says_only_the_response() {
    let thought = "Thought:\nBetter not to tell my email yet.\n\nUser Response:\nHello.";
    let server = Server::saying(&["Thought: no response at all", thought, "Thought: done\nUser Response: ###STOP###"]);
    let mut user = server.user(Strategy::React);
    assert_eq!(user.reply(GREETING).await.unwrap(), said("Hello."));
    assert_eq!(user.reply("Bye.").await.unwrap(), over());
    assert_eq!(server.messages(2)[2], thought, "it remembers its thoughts");

    let mute = Server::saying(&["hm", "hm", "hm"]);
    let fault = mute.user(Strategy::React).reply(GREETING).await.unwrap_err();
    assert_eq!((fault.boundary, fault.transient), (Boundary::UserSimulator, true));
}

#[tokio::test]
async fn verify_samples_until_accepted_and_remembers_what_it_said() {
    let server = Server::saying(&["I am the agent.", "False: not true to the role", "Hello.", "true", "Yes.", "true"]);
    let mut user = server.user(Strategy::Verify);
    assert_eq!(user.reply(GREETING).await.unwrap(), said("Hello."));
    assert_eq!(user.reply("Sure?").await.unwrap(), said("Yes."));
    assert_eq!(server.messages(4)[1..], [GREETING, "Hello.", "Sure?"], "the rejected message was never said");
    assert!(server.messages(5)[0].contains("Agent: Hi! How can I help you today?\nCustomer: Hello.\nAgent: Sure?"));

    let strict = Server::saying(&["a", "false", "b", "false", "c", "next", "true"]);
    let mut user = strict.user(Strategy::Verify);
    assert_eq!(user.reply(GREETING).await.unwrap(), said("c"), "after three samples the last one is said");
    user.reply("Go on.").await.unwrap();
    assert_eq!(strict.messages(5)[1..], [GREETING, "c", "Go on."], "and remembered");
}

#[tokio::test]
async fn reflection_rewrites_once_and_falls_back_to_the_first() {
    let rewrite = "Reflection:\nIt plays the agent.\n\nResponse:\nHello.";
    let server = Server::saying(&["How can I help you?", "false", rewrite, "true", "Bye.", "true"]);
    let mut user = server.user(Strategy::Reflection);
    assert_eq!(user.reply(GREETING).await.unwrap(), said("Hello."));
    user.reply("Well?").await.unwrap();
    assert_eq!(server.messages(4)[1..], [GREETING, "Hello.", "Well?"]);

    let hopeless = Server::saying(&["first", "false", rewrite, "false"]);
    assert_eq!(hopeless.user(Strategy::Reflection).reply(GREETING).await.unwrap(), said("first"));
}

#[tokio::test]
async fn infrastructure_is_asked_again_and_a_refusal_is_not() {
    let busy = (503, "busy".to_owned());
    let server = Server::start(vec![busy.clone(), (0, String::new()), (200, completion("Hello."))]);
    assert_eq!(server.user(Strategy::Llm).reply(GREETING).await.unwrap(), said("Hello."));

    let down = Server::start(vec![busy.clone(), busy.clone(), busy]);
    let fault = down.user(Strategy::Llm).reply(GREETING).await.unwrap_err();
    assert_eq!((fault.boundary, fault.transient), (Boundary::UserSimulator, true));
    assert!(fault.what.contains("503") && fault.what.contains("after 3 attempts"), "{fault}");

    let refused = Server::start(vec![(401, "no such key".into())]);
    let fault = refused.user(Strategy::Llm).reply(GREETING).await.unwrap_err();
    assert!(!fault.transient && fault.what.contains("401"), "{fault}");

    for body in ["not json", "{}", "{\"choices\": []}"] {
        let odd = Server::start(vec![(200, body.into())]);
        assert!(!odd.user(Strategy::Llm).reply(GREETING).await.unwrap_err().transient);
    }
    let endless = Server::start(vec![(200, completion(&"x".repeat(2 << 20)))]);
    assert!(endless.user(Strategy::Llm).reply(GREETING).await.unwrap_err().what.contains("longer than"));
}

#[tokio::test]
async fn a_silent_server_meets_the_deadline() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let spec = ChatSpec {
        url: format!("http://{}/v1", listener.local_addr().unwrap()),
        deadline_s: 0.2,
        ..Server { url: String::new(), asked: Arc::default() }.spec()
    };
    let client = ChatClient::new(spec).unwrap();
    let mut user = LlmUser::new(client, Strategy::Llm, Prompts::default(), "", Seed::root(1));
    let fault = user.reply(GREETING).await.unwrap_err();
    assert!(fault.transient && fault.what.contains("deadline: no reply within 0.2 s"), "{fault}");
}

#[tokio::test]
async fn a_key_is_sent_and_never_shown() {
    // PATH is set everywhere, and no server would echo its value by chance.
    let key = std::env::var("PATH").unwrap();
    let server = Server::start(vec![(400, format!("bad key: {key}"))]);
    let spec = ChatSpec { key_env: Some("PATH".into()), ..server.spec() };
    let client = ChatClient::new(spec.clone()).unwrap();
    assert!(!format!("{client:?}").contains(&key));
    let mut user = LlmUser::new(client, Strategy::Llm, Prompts::default(), "", Seed::root(1));
    let fault = user.reply(GREETING).await.unwrap_err();
    assert!(!fault.what.contains(&key), "{fault}");
    assert!(server.asked.lock().unwrap()[0].0.contains(&format!("Bearer {key}")));
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
