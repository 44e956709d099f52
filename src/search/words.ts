/**
 * Splits texts into the words that a search compares: names are split at case, digits and punctuation, words are reduced to
 * their stems, and words that say nothing about a tool are left out. Documents and queries use the same functions, so that a
 * word in a query finds all its forms. `VOCABULARY` contains synonyms.
 */

/** Maximum length of the text that is read, because the rest of a long description says little about a tool's purpose. */
const MAX_TEXT_LENGTH = 4_000
const MAX_WORD_LENGTH = 40

/** The stems of a text with its compounds as single words too. */
export function documentStems(text: string): readonly string[] {
  const compounds = text.slice(0, MAX_TEXT_LENGTH).match(COMPOUND) ?? []
  return [...stemsOf(text), ...compounds.map((word) => word.toLowerCase())]
}

/** The stems of a text, in order, with repetitions. */
export function stemsOf(text: string): readonly string[] {
  return splitWords(text).flatMap((word) => (STOP_WORDS.has(word) ? [] : [stemOf(word)]))
}

/** `GetPullRequests2` and `get_pull_requests_2` both give `get pull requests 2`. */
export function splitWords(text: string): readonly string[] {
  const spaced = text
    .slice(0, MAX_TEXT_LENGTH)
    .replaceAll(/['’]s\b/g, '')
    .replaceAll(/(\p{Ll})(\p{Lu})/gu, '$1 $2')
    .replaceAll(/(\p{Lu})(\p{Lu}\p{Ll})/gu, '$1 $2')
    .replaceAll(/(\p{L})(\p{N})|(\p{N})(\p{L})/gu, '$1$3 $2$4')
  return spaced.toLowerCase().match(WORD) ?? []
}

/** Words such as `GitHub`. */
const COMPOUND = /\b[A-Z][a-z]+[A-Z][A-Za-z]*\b/g
const WORD = new RegExp(`[\\p{L}\\p{N}]{1,${MAX_WORD_LENGTH}}`, 'gu')

/** A name without case and punctuation: all spellings of one name are equal. */
export function plainName(text: string): string {
  return text
    .slice(0, MAX_TEXT_LENGTH)
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N}]+/gu, '')
}

const STOP_WORDS = new Set(
  `a about again all already also am an and any anybody anyone anything are as at be because been before being both but by can could
  did do does doing done each etc ever every everybody everyone everything for from give had has have having he her here hers him his
  how i if in into is it its itself just let like may me might mine more most much must my myself need no nobody not now of off on
  once one only onto or other our ours out over own per please put she should since so some somebody someone something such take tell
  than that the their theirs them then there these they thing things this those through to too under until up upon us very via want
  was we were what when where whether which while who whom whose why will with within without would yes yet you your yours`.split(
    /\s+/,
  ),
)

const STEMS = new Map<string, string>()
const MAX_STEMS = 20_000

function stemOf(word: string): string {
  const known = STEMS.get(word)
  if (known !== undefined) return known
  const stem = NOT_ENGLISH.test(word) ? word : reduce(word)
  if (STEMS.size >= MAX_STEMS) STEMS.clear()
  STEMS.set(word, stem)
  return stem
}

const NOT_ENGLISH = /[^a-z]/
const VOWEL = /[aeiouy]/

/** Endings that are removed, with the minimum number of letters that must remain, and the replacement. */
const ENDINGS: readonly (readonly [ending: string, least: number, instead: string])[] = [
  ['ification', 2, 'ify'],
  ['ization', 3, 'ize'],
  ['isation', 3, 'ize'],
  ['ation', 5, ''],
  ['ition', 4, ''],
  ['ion', 4, ''],
  ['ment', 5, ''],
  ['ness', 4, ''],
  ['able', 4, ''],
  ['ance', 4, ''],
  ['ence', 4, ''],
  ['ize', 4, 'iz'],
  ['ise', 4, 'iz'],
  ['ful', 4, ''],
  ['our', 3, 'or'],
  ['er', 5, ''],
  ['or', 5, ''],
  ['ly', 4, ''],
]

/** A light form of Porter's algorithm: only forms of the same word become equal, and short words stay unchanged. */
function reduce(word: string): string {
  let stem = singular(word)
  if (stem.length > 4) stem = withoutTense(stem)
  for (const [ending, least, instead] of ENDINGS) {
    if (!stem.endsWith(ending) || stem.length - ending.length < least) continue
    stem = stem.slice(0, -ending.length) + instead
    break
  }
  if (stem.length > 3 && stem.endsWith('e')) stem = stem.slice(0, -1)
  return stem.length > 2 && stem.endsWith('y') ? `${stem.slice(0, -1)}i` : stem
}

function singular(word: string): string {
  if (word.length < 4 || !word.endsWith('s')) return word
  if (/(ss|us|is)$/.test(word)) return word
  if (word.endsWith('ies') && word.length > 4) return `${word.slice(0, -3)}y`
  if (/(ss|x|ch|sh)es$/.test(word)) return word.slice(0, -2)
  return word.slice(0, -1)
}

function withoutTense(word: string): string {
  const ending = ['ing', 'ed'].find((each) => word.endsWith(each))
  if (ending === undefined) return word
  const stem = word.slice(0, -ending.length)
  if (stem.length < 3 || !VOWEL.test(stem)) return word
  const isDoubled = stem.at(-1) === stem.at(-2) && !/[lsz]$/.test(stem)
  return isDoubled ? stem.slice(0, -1) : stem
}

/**
 * Words that people write, with the words that tools use for the same thing. A query with the first word of a line also
 * searches for the others; after `=` this applies to every word of the line. The words are about software work in general.
 */
const VOCABULARY = `
= create add new make
= delete remove erase drop
= update edit modify change
= list show
= get read fetched show
= find search look locate lookup
= folder directory dir subfolder
= organization org organisation company enterprise
= repository repo
= picture image photo media
= licence license
= environment env
= member membership
= invite invitation invitee
= configuration config setting
= deploy deployment rollout
= email mail
= statistic stat metric
= dependency depend package
= vulnerability vulnerable advisory
= relation relationship relate link
= entity node
= subscribe subscription watch
= sign signature signing
start create begin run trigger launch
begin create start
open create get view
raise create
file create
publish create release
register create add registration
define create
generate create
write create update
set update replace create
setup create configure
give add assign grant
assign add set
attach upload add
rename update
turn enable create
switch enable disable
buy add
get rid delete
kick remove
kill cancel stop
abort cancel
stop cancel disable
halt stop cancel
throw delete dismiss
clear delete remove mark
purge delete clear
forget delete
destroy delete
ban block
revoke remove delete
take remove
strip remove
move transfer rename
hand transfer
copy fork duplicate clone
retry rerun re redeliver repeat
repeat rerun re echo retry
rerun re run
restart re run
replay redeliver
sync merge update upstream
approve review accept approval
reject review dismiss decline
freeze lock
mute subscription
protect protection
bug issue
ticket issue
problem issue alert
subtask sub issue
child sub
children sub
comment note reply
reply comment
remark comment
note comment observation
answer reply comment
assignee assign
reviewer review
label tag
tag label topic
keyword topic tag
goal milestone
deadline milestone due
diff compare file
difference compare
log commit run history
history event commit timeline
timeline event
changelog release note
binary asset
installer asset
version release tag
newest latest
current latest authenticate
contributor collaborator
collaborator collaborate
access permission collaborator grant
right permission
hook webhook
notify webhook notification
inbox notification
unread notification
traffic view clone referrer
visitor view referrer traffic
visit view traffic
referral referrer
website page site
site page
ci workflow action run check
pipeline workflow
build workflow run
job run workflow
machine runner
runner machine
artifact output
output artifact log
cached cache
status state check
green status check
overall combined
person user member people
people user member collaborator
somebody user
colleague member user
employee member
developer user collaborator
external outside
account user
profile user
bio user profile
follower follow
team group
group team
snippet gist
paste gist
star starred
stargazer star
favourite star starred
favorite star starred
branch ref
ref reference
finding alert
hole vulnerability advisory
weakness vulnerability
leak secret alert
leaked secret
exposed secret
password secret
credential secret token
token secret
warning alert
cve advisory vulnerability
sbom bill
component dependency
container package
workspace codespace
cloud codespace
seat license
cost billing usage
spend billing usage
billing usage
card item
board project
emoji reaction
thumb reaction
heart reaction
react reaction
html render
preview render
quota rate limit
throttle rate limit
throttled rate limit
restrict restriction interaction
limit restriction
backup migration archive
export migration archive
student classroom assignment
class classroom
mark grade
grade mark
network configuration
registry private
disk file
document file
text file
photo image
sound audio media
patch edit
mkdir create directory
ls list directory
mv move file
rm delete file
stat info metadata
size info
nested tree
recursive tree
structure tree
remember create memory observation knowledge
memory knowledge graph
fact observation
knowledge graph
connect create relation
connection relation
unlink delete relation
dump read
whole read entire
plus sum add
calculate sum
total sum
print get
progress long running
slow long running
compress gzip zip
gz gzip
zip zipball archive
logo image
hello echo
message echo comment
project repository
rule ruleset
login user username
detail get
pause stop suspend
spin create start
computer file
close update dismiss
import upload
end remove
ignore gitignore
anywhere search
available list
inform get
information get
modified file change
typo comment
rollout deployment
production deployment environment
staging environment deployment
key ssh
laptop ssh key
roll deploy
deactivate disable
activate enable
nightly workflow schedule
colour label
triage label
visible view
`

/** Words by which callers refer to themselves. */
const OWN_WORDS = new Set(['i', 'mine', 'my', 'myself'])
const OWN: QueryWord = { stem: 'my', related: ['authent', 'me', 'own', 'current', 'viewer'], weight: 0.5 }

function relatedWords(): ReadonlyMap<string, readonly string[]> {
  const related = new Map<string, Set<string>>()
  const relate = (word: string, other: string): void => {
    if (word === other) return
    const others = related.get(word) ?? new Set()
    related.set(word, others.add(other))
  }
  for (const line of VOCABULARY.trim().split('\n')) {
    const isMutual = line.startsWith('= ')
    const stems = line.replace('= ', '').split(' ').map(stemOf)
    for (const stem of isMutual ? stems : stems.slice(0, 1)) for (const other of stems) relate(stem, other)
  }
  return new Map([...related].map(([word, others]) => [word, [...others]]))
}

const RELATED = relatedWords()

/** One word of a query: its stem, and the stems of related words. */
export interface QueryWord {
  readonly stem: string
  readonly related: readonly string[]
  /** How much the word counts; verbs count less than 1. */
  readonly weight: number
}

const MAX_QUERY_WORDS = 24

/** Verbs count less than nouns, because `ranking.ts` compares the action separately. */
const VERBS = new Set(
  `create add new make delete remove update edit change set list show get read fetched find search look open start run write save put use
  using used let want go work see turn give take`
    .split(/\s+/)
    .map(stemOf),
)

function weightOf(stem: string): number {
  return VERBS.has(stem) ? VERB_WEIGHT : 1
}

const VERB_WEIGHT = 0.6

/** Abbreviations that are never words themselves. */
const ABBREVIATIONS: Readonly<Record<string, string>> = {
  pr: 'pull request',
  prs: 'pull requests',
  mr: 'pull request',
}

/** The distinct words of a query. A compound such as `GitHub` stays one word if `isKnown` has it. */
export function queryWords(text: string, isKnown: (stem: string) => boolean): readonly QueryWord[] {
  const whole = text.replaceAll(COMPOUND, (word) => (isKnown(word.toLowerCase()) ? word.toLowerCase() : word))
  const written = whole.replaceAll(/\b[PMpm][Rr]s?\b/g, (word) => ABBREVIATIONS[word.toLowerCase()] ?? word)
  const stems = [...new Set(stemsOf(written))].slice(0, MAX_QUERY_WORDS)
  const words = stems.map((stem) => ({ stem, related: RELATED.get(stem) ?? [], weight: weightOf(stem) }))
  return splitWords(text).some((word) => OWN_WORDS.has(word)) ? [...words, OWN] : words
}
