/**
 * Words that people write, with the words that tools use for the same thing: about software, office work, business and travel in
 * general, without names of services. `words.ts` reads the tables once and compares stems.
 */

/** All words of an entry may stand for each other. */
const EQUAL = `
website site homepage; certificate cert ssl tls; variable var; database db; authentication auth; application app;
administrator admin; document doc; photo photograph; text txt; movie film; shop store; order purchase;
customer client; employee staff; car vehicle; job vacancy; doctor physician; medicine drug medication;
recipe dish meal; hotel accommodation lodging; trip travel journey; airplane plane flight; advertisement ad;
advert ad advertisement; calendar schedule agenda; appointment event meeting booking; meeting event;
chat conversation message; channel room; phone telephone call; sms text message; number count; cost price fee;
currency money exchange; stock share equity; invoice bill; refund reimburse; discount coupon voucher promotion deal;
translate translation language; summarize summary; weather forecast temperature climate; news article headline;
paper article publication; book novel; song track music; game play; sport match; vote poll survey; task todo;
note memo; contact person; lead prospect; deal opportunity; log record; metric statistic measure; snapshot backup;
server machine host instance; instance server machine vm; bucket storage; queue topic; channel topic;
domain dns hostname; url link address; webpage page url website; code source script program; function lambda;
secret password credential; role permission; plan subscription; directory folder; property attribute field;
row record entry; column field; table sheet; spreadsheet sheet table excel; chart graph plot diagram;
map location place; near nearby; restaurant food dining; house home property real estate;
apartment flat property rental; video clip; logo brand; pdf document; university college school; course class lesson;
teacher instructor tutor; crypto cryptocurrency coin token; wallet account; blockchain chain; create add new make;
delete remove erase drop; update edit modify change; list show; get read fetched show;
find search look locate lookup; folder directory dir subfolder; organization org organisation; repository repo;
picture image photo media; licence license; environment env; member membership; invite invitation invitee;
configuration config setting; deploy deployment rollout; email mail; statistic stat metric;
dependency depend package; vulnerability vulnerable advisory; relation relationship relate link; entity node;
subscribe subscription watch; sign signature signing
`

/** The word before the colon may stand for those after it, but not the reverse. */
const STANDS_FOR = `
https: tls ssl certificate; mail: message email; message: mail chat echo comment; email: message;
tell: send message notify; notify: send notification alert message webhook; alert: notification warning;
remind: reminder notification; reminder: notification task; ring: call; chat: message; reply: message comment;
talk: chat conversation; speech: voice audio; voice: audio speech; dictate: transcribe speech;
transcribe: transcript speech audio; subtitle: caption transcript; website: page web site; site: website page;
page: website document; web: website url; blog: post article; post: article message create; picture: file photo;
colour: style color label; color: colour; font: text style; style: theme; theme: style; design: file;
mockup: design file; frame: node; layer: node; icon: image component; thumbnail: image preview;
screenshot: image capture; export: download render migration archive; render: export; card: payment item;
pay: payment charge; payment: charge invoice transaction; charge: payment; money: payment balance amount;
bank: account transaction; spend: cost usage billing; price: quote cost; quote: price; buy: purchase order add;
sell: sale order; cart: basket order; ship: shipment delivery order; deliver: delivery shipment;
parcel: shipment package tracking; track: tracking status; return: refund; invest: stock portfolio; salary: payroll;
tax: vat; expense: cost receipt; receipt: invoice; revenue: sale income; income: revenue; profit: revenue;
company: business organization enterprise account; firm: company business;
colleague: member account person contact user; coworker: colleague member user; team: account group member;
guest: visitor user; visitor: traffic analytic view referrer; traffic: analytic usage view clone referrer;
analytic: statistic report usage; report: analytic; audience: user segment;
people: person contact user member collaborator; person: contact people user member; someone: user member person;
account: user member; login: sign authentication session user username; sign: login register;
logged: current authenticated; password: credential secret; permission: role access;
access: permission role collaborator grant; audit: log event activity; activity: event log;
history: version log audit activity event commit timeline; earlier: previous version history;
previous: version history; yesterday: version history; old: previous version; undo: restore rollback revert;
rollback: restore revert; revert: restore rollback; recover: restore; restore: recover rollback backup;
back: restore rollback; backup: snapshot export archive migration; snapshot: backup;
copy: clone duplicate branch fork; duplicate: copy clone; clone: copy duplicate; move: transfer rename;
transfer: move; hand: transfer; pause: disable suspend stop; resume: enable continue start cv; offline: disable;
online: enable status; live: publish deploy; publish: deploy release create; launch: start publish deploy create;
boot: start create; shut: stop; restart: reboot re run; reboot: restart; rebuild: build; compile: build;
build: compile deploy workflow run; deploy: release publish build; deployment: release build;
ci: build workflow action run check; pipeline: build workflow; job: task run career workflow; task: job;
cron: schedule; schedule: cron job; timer: schedule; recurring: schedule repeat; script: snippet code;
insert: add create; inject: insert; embed: insert; attach: link upload add; link: connect url;
connect: link integration create relation; disconnect: unlink remove; detach: unlink;
integration: connection webhook; plugin: addon extension integration; extension: plugin addon; addon: plugin service;
service: addon; hook: trigger webhook; callback: hook webhook; webhook: hook; slack: notification hook;
listener: webhook subscription; event: webhook calendar; cdn: cache; cache: purge; schema: migration;
migration: schema; query: search select; sql: query database; record: row entry; entry: record item submission;
submission: entry form; form: submission; answer: response reply comment; response: answer; feedback: comment review;
review: comment rating feedback; rating: review score; remark: comment; thumb: reaction; like: reaction favorite;
favorite: like bookmark star starred; bookmark: favorite save; emoji: reaction; tag: label category topic;
category: tag group; token: variable key secret; key: token credential secret ssh; test: experiment;
experiment: test split; variant: split; library: team; component: library dependency; reusable: component;
metadata: info meta; info: metadata meta; detail: metadata get; size: dimension info; domain: zone;
subdomain: record zone; zone: domain; cname: record; dns: record zone domain; ip: address; host: server domain;
server: instance host; machine: server instance runner; vm: instance server; container: instance package;
cluster: server; storage: bucket disk; disk: volume storage file; folder: project directory;
project: folder repository; photo: picture image; agent: ai; ai: agent model; bot: agent; model: ai;
credit: usage balance; quota: limit usage rate; limit: quota restriction; invite: add member; join: member invite;
leave: remove member; left: remove; fire: remove; hire: add member; subscribe: subscription;
unsubscribe: subscription; newsletter: campaign email; campaign: email; lead: contact; customer: contact;
deal: opportunity; meeting: event appointment; calendar: event; holiday: vacation event leave;
remember: note create memory observation knowledge; note: text comment observation; todo: task;
deadline: date milestone due; time: clock timezone; clock: time timezone; day: date daily; daily: day; week: weekly;
month: monthly; today: date current; tomorrow: forecast; rain: weather; temperature: weather; news: headline;
lookup: search; google: search web; browse: search website; directions: route map navigation; route: direction map;
distance: route; drive: route car; flight: airline airport; airport: flight; fly: flight; travel: trip flight hotel;
hotel: booking; book: reserve booking; reserve: booking book; reservation: booking; cook: recipe; ingredient: recipe;
food: recipe restaurant nutrition; eat: food restaurant; calorie: nutrition; diet: nutrition;
fitness: workout exercise; workout: exercise fitness; doctor: health; health: medical; movie: video; watch: video;
listen: music audio; song: music; music: song audio; read: text; translate: language; language: translation;
grammar: language; math: calculate; compute: calculate; equation: math; convert: transform conversion;
unit: conversion; rate: exchange; summary: summarize; shorten: summarize; headline: news; joke: fun; gift: product;
product: item catalog; catalog: product; item: product; compare: comparison; best: recommendation;
recommend: recommendation suggestion; suggest: recommendation; idea: suggestion; career: job; learn: course;
study: course; homework: course; house: property; rent: rental; mortgage: loan; loan: credit; share: stock;
ticker: stock; bitcoin: crypto; nft: token; enterprise: company business; start: create begin run trigger launch;
begin: create start; open: create get view; raise: create; file: create; register: create add registration;
define: create; generate: create; write: create update; set: update replace create; setup: create configure;
give: add assign grant; assign: add set; rename: update; turn: enable create; switch: enable disable;
get: rid delete; kick: remove; kill: cancel stop; abort: cancel; stop: cancel disable; halt: stop cancel;
throw: delete dismiss; clear: delete remove mark; purge: delete clear; forget: delete; destroy: delete; ban: block;
revoke: remove delete; take: remove; strip: remove; retry: rerun re redeliver repeat; repeat: rerun re echo retry;
rerun: re run; replay: redeliver; sync: merge update upstream; approve: review accept approval;
reject: review dismiss decline; freeze: lock; mute: subscription; protect: protection; bug: issue; ticket: issue;
problem: issue alert; subtask: sub issue; child: sub; children: sub; comment: note reply; assignee: assign;
reviewer: review; label: tag; keyword: topic tag; goal: milestone; diff: compare file; difference: compare;
log: commit run history; timeline: event; changelog: release note; binary: asset; installer: asset;
version: release tag; newest: latest; current: latest authenticate; contributor: collaborator;
collaborator: collaborate; right: permission; inbox: notification; unread: notification; visit: view traffic;
referral: referrer; runner: machine; artifact: output; output: artifact log; cached: cache; status: state check;
green: status check; overall: combined; somebody: user; employee: member; developer: user collaborator;
external: outside; profile: user; bio: user profile; follower: follow; group: team; snippet: gist; paste: gist;
star: starred; stargazer: star; favourite: star starred; branch: ref; ref: reference; finding: alert;
hole: vulnerability advisory; weakness: vulnerability; leak: secret alert; leaked: secret; exposed: secret;
credential: secret token; warning: alert; cve: advisory vulnerability; sbom: bill; workspace: codespace;
cloud: codespace; seat: license; cost: billing usage; billing: usage; board: project; heart: reaction;
react: reaction; html: render; preview: render; throttle: rate limit; throttled: rate limit;
restrict: restriction interaction; student: classroom assignment; class: classroom; mark: grade; grade: mark;
network: configuration; registry: private; document: file; text: file; sound: audio media; patch: edit;
mkdir: create directory; ls: list directory; mv: move file; rm: delete file; stat: info metadata; nested: tree;
recursive: tree; structure: tree; memory: knowledge graph; fact: observation; knowledge: graph; connection: relation;
unlink: delete relation; dump: read; whole: read entire; plus: sum add; calculate: sum; total: sum; print: get;
progress: long running; slow: long running; compress: gzip zip; gz: gzip; zip: zipball archive; logo: image;
hello: echo; rule: ruleset; spin: create start; computer: file; close: update dismiss; import: upload; end: remove;
ignore: gitignore; anywhere: search; available: list; inform: get; information: get; modified: file change;
typo: comment; rollout: deployment; production: deployment environment; staging: environment deployment;
laptop: ssh key; roll: deploy; deactivate: disable; activate: enable; nightly: workflow schedule; triage: label;
visible: view; fetch: get retrieve; retrieve: get; display: show view; download: get export
`

/** For each stem the stems that it may stand for. */
export function relatedStems(stemOf: (word: string) => string): ReadonlyMap<string, readonly string[]> {
  const related = new Map<string, Set<string>>()
  const relate = (word: string, others: readonly string[]): void => {
    const known = related.get(word) ?? new Set()
    for (const other of others) if (other !== word) known.add(other)
    related.set(word, known)
  }
  for (const entry of entriesOf(EQUAL)) {
    const stems = entry.split(' ').map(stemOf)
    for (const stem of stems) relate(stem, stems)
  }
  for (const entry of entriesOf(STANDS_FOR)) {
    const [word = '', others = ''] = entry.split(': ')
    relate(stemOf(word), others.split(' ').map(stemOf))
  }
  return new Map([...related].map(([word, others]) => [word, [...others]]))
}

function entriesOf(table: string): readonly string[] {
  return table.trim().split(/;\s*/)
}
