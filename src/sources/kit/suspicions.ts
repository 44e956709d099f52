import { RE2JS } from 're2js'
import { childPointer, isJsonObject, type JsonValue } from '#kernel/base/json'
import type { OfferedTool } from './source.ts'

/*
 * Finds texts in tool definitions that instruct a model, hide characters or ask for data that the tool does not need.
 * Pins use it to hold suspicious definitions. Invariant: patterns run in linear time, because the texts are untrusted.
 */

export interface Suspicion {
  readonly where: string
  readonly says: string
}

/** More suspicions than this would not change a decision. */
const MAX_SUSPICIONS = 20

/**
 * Finds texts that instruct the model instead of describing the tool, that hide something, or that ask for data that the
 * tool does not need. Every text of a definition reaches models: names, defaults and enums as well as descriptions.
 */
export function suspicionsOf(offered: OfferedTool, read: TextReader = suspicionIn): readonly Suspicion[] {
  const found: Suspicion[] = []
  const look = (where: string, text: string): void => {
    if (found.length >= MAX_SUSPICIONS) return
    const says = read(withoutOwnOrder(text, offered.nativeName))
    if (says !== undefined) found.push({ where, says })
  }
  const { nativeName, title, description, inputSchema, outputSchema } = offered
  look('name', nativeName)
  if (title !== undefined) look('title', title)
  look('description', description)
  visitTexts(inputSchema, 'input', look)
  visitTexts(outputSchema, 'output', look)
  return found
}

/** Matches texts such as "call this before any other Shopify tool": a tool may state an order among the tools of its own product. */
const ORDER =
  /\b(before|instead of) ((?:any|all|every)(?: of)?(?: the)?(?: other)?|other) ([a-z][a-z0-9]{3,30}) (tools?|functions?)\b/gi

function withoutOwnOrder(text: string, nativeName: string): string {
  if (!text.includes('ool') && !text.includes('OOL') && !/function/i.test(text)) return text
  const own = new Set(nativeName.toLowerCase().split(/[^a-z0-9]+/))
  const plain = text.replaceAll(ORDER, (order: string, _when: string, _which: string, whose: string) =>
    own.has(whose.toLowerCase()) ? 'in their order' : order,
  )
  return GUIDES.some((word) => own.has(word)) ? plain.replaceAll(GUIDE_ORDER, 'It is called first') : plain
}

/** A tool whose name shows that it explains the others may ask to be called before them, but not instead of them. */
const GUIDES = ['instructions', 'guide', 'guidelines', 'overview', 'onboarding', 'readme']
const GUIDE_ORDER =
  /\b(?:this tool|it) (?:must|should|has to|needs to) (?:always )?be (?:called|used|invoked|run|executed) before (?:any|all|every)(?: of)?(?: the)?(?: other)? (?:tools?|functions?)\b/gi

export type TextReader = (text: string) => string | undefined

/** Makes a reader that examines each text only once, because the tools of one upstream often repeat texts. */
export function createTextReader(): TextReader {
  const known = new Map<string, string | undefined>()
  return (text) => {
    if (IDENTIFIER.test(text)) return undefined
    if (!known.has(text)) known.set(text, suspicionIn(text))
    return known.get(text)
  }
}

/** Matches plain names of properties or keywords, which are too short to contain an instruction. */
const IDENTIFIER = /^[\w$.:-]{1,24}$/

export function suspicionIn(text: string): string | undefined {
  return hiddenCharacter(text) ?? mixedWord(text) ?? instructionIn(text)
}

function visitTexts(value: JsonValue, where: string, look: (where: string, text: string) => void): void {
  if (typeof value === 'string') look(where, value)
  if (typeof value !== 'object' || value === null) return
  for (const [name, member] of Object.entries<JsonValue>(value)) {
    const pointer = childPointer(where, name)
    if (isJsonObject(value)) look(pointer, name)
    // Regular expressions do not instruct models.
    if (name !== 'pattern' || typeof member !== 'string') visitTexts(member, pointer, look)
  }
}

/** What a text suspiciously asks for, with the words that show it; `undefined` if the text only describes its tool. */
function instructionIn(text: string): string | undefined {
  if (text.length < MIN_LENGTH) return undefined
  const plain = text.replaceAll(/\s+/g, ' ')
  const small = plain.toLowerCase()
  for (const candidate of SUSPICIOUS_PATTERNS) {
    const { needs, says, unless, isHarmless } = candidate
    if (!needs.every((need) => need.test(small))) continue
    const matcher = compiledOf(candidate).matcher(plain)
    while (matcher.find()) {
      const found = matcher.group() ?? ''
      const after = plain.slice(matcher.end(), matcher.end() + FOLLOWING)
      if (unless?.test(after) === true) continue
      if (isHarmless?.(clauseAround(plain, matcher.start(), matcher.end())) === true) continue
      return `${says}: ${JSON.stringify(found.trim().slice(0, 80))}`
    }
  }
  return undefined
}

/** Shorter texts cannot contain an instruction to a model. */
const MIN_LENGTH = 8
const FOLLOWING = 20

interface SuspiciousPattern {
  /** In the syntax of the linear-time engine, because the texts are untrusted. */
  readonly pattern: string
  /** Lower-case texts, one of which every match contains; a text without any of them need not be searched by the slower engine. */
  readonly needs: readonly RegExp[]
  readonly says: string
  /** A continuation that makes the match harmless. */
  readonly unless?: RegExp
  /** True if the clause around the match negates it. */
  readonly isHarmless?: (clause: string) => boolean
}

const MAX_CLAUSE_LENGTH = 200

function clauseAround(text: string, start: number, end: number): string {
  const before = text.slice(Math.max(0, start - MAX_CLAUSE_LENGTH), start)
  const after = text.slice(end, end + MAX_CLAUSE_LENGTH)
  return `${before.split(CLAUSE_END).at(-1)} \u0000 ${after.split(CLAUSE_END)[0]}`
}

/** A full stop ends a clause only before a space, because file names contain full stops too. */
const CLAUSE_END = /[!?;:]|\.(?= |$)/

const FORBIDS =
  /\b(?:(?:is|are|gets?|be) (?:always |also )?(?:rejected|refused|forbidden|disallowed|denied|blocked|prohibited|excluded|off[- ]limits)|(?:is|are) (?:not|never) (?:be )?(?:allowed|permitted|accepted|read|opened|sent|touched|accessible)|not (?:allowed|permitted)|(?:rejects?|refuses?|forbids?|denies|blocks?|excludes?)|(?:do not|don't|never|must not|should not|cannot|can't|may not) (?:be )?(?:use|used|pass|passed|read|point|give|given|access|accessed|open|opened|include|included|send|sent|upload|uploaded))\b/gi
/** Parts of an instruction to pass something on. */
const ORDERS =
  /\b(?:read|open|load|[Ff]etch|get|cat|access|collect|gather|extract|pass|send|include|put|post|append|provide|forward|upload|attach|copy|encode|insert|embed|use|give|goes|belongs?|into|parameter|argument|field)\b/i

/** True for a clause that forbids something and contains no other instruction. */
function onlyForbids(clause: string): boolean {
  const rest = clause.replaceAll(FORBIDS, '')
  return rest !== clause && !ORDERS.test(rest)
}

const USER = '(?:the |a |your )?(?:user|human|operator|person)s?'
const TELL =
  '(?:tell|telling|inform|informing|mention|mentioning|notify|notifying|reveal|revealing|disclose|disclosing|alert|alerting|show|showing|warn|warning|ask|asking)'
const TALK =
  '(?:(?:conversation|chat|dialog(?:ue)?|message|prompt)s?(?: history| log| context)?|(?:system|developer|initial) (?:prompt|message|instructions?))'
const SEND =
  '(?:send|post|forward|upload|submit|transmit|copy|leak|exfiltrate|e-?mail|bcc|pass|include|append|insert|embed|put|attach|encode|provide)'

const SENDING =
  /send|post|forward|upload|submit|transmit|copy|leak|exfiltrat|mail|bcc|pass|includ|append|insert|embed|put|attach|encod|provid/

/** Each pattern matches one kind of text that no legitimate description needs. */
const SUSPICIOUS_PATTERNS: readonly SuspiciousPattern[] = [
  {
    pattern: `\\b(?:ignore|disregard|forget|override|bypass|overrule)\\b[^.!?]{0,30}\\b(?:previous|prior|above|earlier|preceding|existing|all|any|your|system|safety)\\b[^.!?]{0,20}\\b(?:instructions?|prompts?|guidelines?|guardrails?|directives?|system messages?|safety (?:rules|checks))\\b`,
    needs: [
      /ignor|disregard|forget|overrid|bypass|overrul/,
      /instruction|prompt|guideline|guardrail|directive|system message|safety/,
    ],
    says: 'asks the model to ignore its instructions',
  },
  {
    pattern: `\\b(?:do not|don't|never|must not|should not|without) ${TELL}(?: (?:this|it|that|anything|about this))?(?: to| with| from)? ${USER}\\b`,
    needs: [
      /(?:not|n't|never|without) (?:tell|inform|mention|notify|reveal|disclos|alert|show|warn|ask)/,
      /user|human|operator|person/,
    ],
    says: 'asks to keep something from the user',
    unless: /^ (?:to|that they|must|should|id|name|group|account)\b/i,
  },
  {
    pattern: `\\b(?:hide|conceal|keep) (?:this|it|these|the (?:fact|result|action|call))[^.!?]{0,30} from ${USER}\\b`,
    needs: [/(?:hide|conceal|keep) (?:this|it|these|the) /, /from/],
    says: 'asks to keep something from the user',
  },
  {
    pattern:
      '</?(?:important|system|instructions?|secret|hidden|critical|admin|assistant|sys|system[-_ ]?prompt|user_info|priority)(?:\\s[^>]{0,40})?>|<\\|(?:im_start|im_end|system|user|assistant|endoftext)\\|>|\\[/?INST\\]|<</?SYS>>|(?:^| )#{2,} ?(?:system|instruction)s?:',
    needs: [
      /<\/?(?:important|system|instruction|secret|hidden|critical|admin|assistant|sys|user_info|priority)|<\||\[\/?inst\]|<<\/?sys|## ?(?:system|instruction)/,
    ],
    says: 'has markup that models take for instructions',
  },
  {
    pattern:
      "\\b(?:you are|act as|behave as|pretend to be|you're) (?:now |an? |the )*(?:ai|assistant|language model|llm|chatbot|agent|developer mode|dan|root|unrestricted)\\b",
    needs: [/you are|act as|behave as|pretend to be|you're/],
    says: 'gives the model a role',
  },
  {
    pattern:
      '\\b(?:before|after|whenever|when|prior to|each time|every time)\\b[^.!?]{0,30}\\b(?:us(?:e|ing)|call(?:ing)?|invok(?:e|ing)|run(?:ning)?|execut(?:e|ing)) (?:any|all|every|other|another|each)(?: of)?(?: the)?(?: other)? (?:tools?|functions?)\\b',
    needs: [
      /(?:any|all|every|other|another|each)(?: of)?(?: the)?(?: other)? (?:tool|function)/,
      /us(?:e|ing)|call|invok|run|execut/,
    ],
    says: 'influences the use of other tools',
  },
  {
    pattern:
      "\\b(?:this tool|it) (?:must|should|has to|needs to) (?:always )?be (?:called|used|invoked|run|executed) (?:first|before (?:any|all|every|other)|instead of (?:any|all|every|other))\\b|\\b(?:do not|don't|never) (?:use|call|invoke) (?:any other|other|the (?:built-?in|original|real|native)|another)(?: \\w+)? tools?\\b",
    needs: [
      /be (?:called|used|invoked|run|executed) (?:first|before|instead)|(?:not|n't|never) (?:use|call|invoke) /,
    ],
    says: 'influences the use of other tools',
  },
  {
    pattern: `\\b${SEND}\\b[^.!?]{0,40}\\b(?:the|this|your|full|entire|whole|complete|all|previous|its)\\b[^.!?]{0,20}\\b${TALK}\\b[^.!?]{0,60}\\b(?:parameter|argument|field|input|tool|url|endpoint|webhook|server|address|to https?:)`,
    needs: [
      /(?:the|this|your|full|entire|whole|complete|all|previous|its)\b.{0,20}\b(?:conversation|chat|dialog|prompt|message|(?:system|developer|initial) instruction)/,
      SENDING,
      /parameter|argument|field|input|tool|url|endpoint|webhook|server|address|to https?:/,
    ],
    says: 'asks for the conversation',
  },
  {
    pattern:
      '(?:~|\\$HOME|%USERPROFILE%|/home/[\\w-]+|/root|/Users/[\\w-]+)[/\\\\]\\.(?:ssh|aws|gnupg|kube|docker|cursor|claude|npmrc|netrc|env|bash_history|config[/\\\\]gcloud|git-credentials)|\\bid_(?:rsa|ed25519|ecdsa)\\b|/etc/(?:passwd|shadow)\\b|\\bclaude_desktop_config\\b',
    needs: [/[/\\]\.|id_(?:rsa|ed25519|ecdsa)|\/etc\/|claude_desktop/],
    says: 'names files that hold credentials',
    unless: /^\.pub\b/,
    isHarmless: onlyForbids,
  },
  {
    // Many legitimate servers name this file, because they are configured in it; only passing it on is suspicious.
    pattern: `\\b${SEND} (?:me )?(?:the |your |its )?(?:(?:whole|full|entire|complete) )?(?:contents? of |file )?(?:the |your )?[^\\s]{0,60}\\bmcp\\.json\\b|\\bmcp\\.json\\b[^.!?]{0,80}\\b(?:and|then) ${SEND}\\b`,
    needs: [/mcp\.json/, SENDING],
    says: 'asks for a file that may hold credentials to be passed on',
    isHarmless: onlyForbids,
  },
  {
    pattern:
      '\\b(?:read|open|load|[Ff]etch|get|cat|access|collect|gather|extract)\\b[^.!?]{0,40}(?:\\.env|environment variables|api[ -]?keys?|private keys?|ssh keys?|credentials|passwords|secrets)\\b[^.!?]{0,80}\\b(?:and|then)\\b[^.!?]{0,30}\\b(?:send|pass|include|put|post|append|provide|forward|upload|attach|copy|encode)\\b',
    needs: [
      /\.env|environment variables|api[ -]?key|private key|ssh key|credentials|passwords|secrets/,
      /\b(?:and|then)\b.{0,30}\b(?:send|pass|include|put|post|append|provide|forward|upload|attach|copy|encode)\b/,
      /\b(?:read|open|load|[Ff]etch|get|cat|access|collect|gather|extract)\b/,
    ],
    says: 'asks for credentials to be passed on',
  },
  {
    pattern:
      '\\b(?:send|forward|upload|exfiltrate|transmit|leak|bcc|copy|post)\\b[^.!?]{0,60}\\b(?:contents?|data|files?|results?|history|emails?|messages?|credentials|keys?|tokens?|secrets?|responses?|everything)\\b[^!?]{0,40}\\bto (?:https?://|[\\w.+-]+@[\\w-]+\\.[a-z]|(?:an? |the )?(?:attacker|external (?:server|address|url|endpoint)))',
    needs: [/to (?:https?:\/\/|[\w.+-]{1,64}@|(?:an? |the )?(?:attacker|external))/],
    says: 'asks for something to be sent elsewhere',
  },
  {
    pattern:
      '!\\[[^\\]]{0,80}\\]\\(https?://[^)\\s]{0,200}(?:\\{[\\w ]{1,40}\\}|\\$\\{|<[\\w ]{2,40}>|[?&][\\w-]{1,40}=[\\[{<])',
    needs: [/!\[/, /\]\(https?:/],
    says: 'has an image whose address carries data away',
  },
]

const compiledPatterns = new Map<SuspiciousPattern, RE2JS>()

/** Compiles a pattern for the first text that needs it: compiling all at once would block the server, and most are never used. */
function compiledOf(candidate: SuspiciousPattern): RE2JS {
  const compiled = compiledPatterns.get(candidate) ?? RE2JS.compile(candidate.pattern, RE2JS.CASE_INSENSITIVE)
  compiledPatterns.set(candidate, compiled)
  return compiled
}

/** Describes a character that readers cannot see or mistake for another; `undefined` if the text has none. */
export function hiddenCharacter(text: string): string | undefined {
  if (PLAIN.test(text)) return undefined
  for (const { pattern, says } of HIDDEN) {
    const found = pattern.exec(text)
    if (found !== null) return `${says} (${codePoint(found[0])})`
  }
  const isOneWay = !/[\p{Script=Arabic}\p{Script=Hebrew}]/u.test(text)
  return isOneWay && /[\u200E\u200F]/.test(text)
    ? 'has text direction marks without text that needs them'
    : undefined
}

/** Visible ASCII and white space. */
const PLAIN = /^[\t\n\r\x20-\x7e]*$/

/** Tag characters are allowed after a black flag, because the flags of England, Scotland and Wales are written with them. */
const HIDDEN: readonly { readonly pattern: RegExp; readonly says: string }[] = [
  {
    pattern: /(?<!\u{1F3F4}[\u{E0061}-\u{E007A}]{0,6})[\u{E0000}-\u{E007F}]/u,
    says: 'has invisible tag characters, which models read',
  },
  {
    pattern: /[\u{E0100}-\u{E01EF}]|[\u{FE00}-\u{FE0F}]{2}/u,
    says: 'has variation selectors that can carry hidden data',
  },
  { pattern: /[\u202A-\u202E\u2066-\u2069]/, says: 'has characters that reverse the direction of text' },
  {
    pattern: /\u034F|[\u200B\u2060-\u2064\uFEFF\u180E\u115F\u1160\u3164\uFFA0\u00AD]/,
    says: 'has zero-width characters',
  },
  // Between letters of scripts that join, and in emoji, these two characters are part of the spelling.
  {
    pattern: /(?:^|[\x20-\x7e\s])(?:\u200C|\u200D)|(?:\u200C|\u200D)(?:$|[\x20-\x7e\s])/u,
    says: 'has zero-width joiners where nothing joins',
  },
  // biome-ignore lint/suspicious/noControlCharactersInRegex: the pattern finds them
  { pattern: /[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f]/, says: 'has control characters' },
  { pattern: /[\u{E000}-\u{F8FF}\u{F0000}-\u{10FFFD}]/u, says: 'has private-use characters' },
  { pattern: /[\uFFF9-\uFFFB]/, says: 'has characters that hide annotations' },
]

/** Describes a word that mixes Latin with similar letters of other scripts; `undefined` if the text has none. */
function mixedWord(text: string): string | undefined {
  if (PLAIN.test(text)) return undefined
  for (const [word] of text.matchAll(/[\p{L}\p{M}\p{N}_]+/gu)) {
    const isMixed = /\p{Script=Latin}/u.test(word) && LOOKALIKE.test(word)
    if (isMixed || STYLED.test(word))
      return `has a word that mixes alphabets: ${JSON.stringify(word.slice(0, 40))}`
  }
  return undefined
}

/** Cyrillic, and the Greek letters that look like Latin ones; µ, π and similar signs are common in Latin texts. */
const LOOKALIKE =
  /[\p{Script=Cyrillic}\u0391\u0392\u0395-\u0397\u0399\u039A\u039C\u039D\u039F\u03A1\u03A4\u03A5\u03A7\u03BF\u03BD\u03C1\u03F2]/u
/** Two or more letters of the mathematical or full-width alphabets, which patterns would not find. */
const STYLED = /[\u{1D400}-\u{1D7FF}]{2}|[\uFF21-\uFF3A\uFF41-\uFF5A]{2}/u

function codePoint(found: string): string {
  const hidden = [...found].find((character) => !PLAIN.test(character)) ?? found
  return `U+${(hidden.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, '0')}`
}
