import { createPrivateKey, type KeyObject, X509Certificate } from 'node:crypto'
import { readFile, stat } from 'node:fs/promises'
import type { Settings } from '#config/settings'
import type { Clock } from '#kernel/base/clock'
import { defined } from '#kernel/base/json'
import type { Logger } from '#kernel/base/logger'
import type { ReloadNotes } from '#server/part'
import { StartRefused } from '#server/safety'

/*
 * The TLS certificate of a listener: reading, checking and reloading its files. The HTTP app and `collet doctor` use it.
 * Invariant: an unusable pair of files never replaces a usable one.
 */

export type TlsFiles = NonNullable<Settings['server']['tls']>

interface PemTexts {
  readonly cert: string
  readonly key: string
}

/** A certificate, its intermediate certificates and its key. */
export interface CertifiedKey extends PemTexts {
  /** Time from which all of the certificates are valid. */
  readonly startsAtMs: number
  /** Expiry of the server's own certificate; clients refuse it afterwards. */
  readonly leafEndsAtMs: number
  /** Earliest expiry in the chain. If it is that of an intermediate certificate, clients may still find another chain. */
  readonly expiresAtMs: number
}

/** Interval between two readings of the files. */
const POLL_MS = 2_000
/** A certificate that expires sooner than this causes a warning; automatic renewals happen earlier. */
const SOON_MS = 14 * 86_400_000
const WARN_EVERY_MS = 86_400_000

interface ServedCertificateOptions {
  readonly clock: Pick<Clock, 'nowMs'>
  readonly log: Logger
  readonly pollMs?: number
}

/**
 * The certificate of a listener, reloaded when its files change. The files are polled, not watched: they are small, and polling
 * works whether a file was written, renamed or replaced behind a link (as Kubernetes does). An unusable pair is
 * refused with its reason, and the previous pair stays in use.
 */
export class ServedCertificate {
  readonly #files: TlsFiles
  readonly #options: ServedCertificateOptions
  readonly #users: ((pair: CertifiedKey) => void)[] = []
  #current: CertifiedKey
  /** Why the last reading was refused. It is logged if the next reading finds it again, because the two files are not replaced at the same moment. */
  #lastProblem: string | undefined
  /** The last logged reason. */
  #reported: string | undefined
  #warnedAtMs = Number.NEGATIVE_INFINITY
  #timer: NodeJS.Timeout | undefined
  #isClosed = false

  /** Throws `StartRefused` with a text for the author of the config. */
  static async open(files: TlsFiles, options: ServedCertificateOptions): Promise<ServedCertificate> {
    return new ServedCertificate(files, await readCertifiedKey(files), options)
  }

  private constructor(files: TlsFiles, current: CertifiedKey, options: ServedCertificateOptions) {
    this.#files = files
    this.#current = current
    this.#options = options
    this.#warnOfEnd()
  }

  get current(): CertifiedKey {
    return this.#current
  }

  /** Calls the listener with each new pair: new connections use it, open connections keep the old pair. */
  onRenewed(use: (pair: CertifiedKey) => void): void {
    this.#users.push(use)
    if (this.#timer === undefined) this.#schedule()
  }

  /** Reads the files now, and reports whether they were applied or refused. */
  async onReload(): Promise<ReloadNotes> {
    const found = await this.#read()
    if (typeof found !== 'string') return { applied: this.#apply(found) ? ['server.tls'] : [], refused: [] }
    this.#logRefusal(found)
    return { applied: [], refused: [found] }
  }

  close(): void {
    this.#isClosed = true
    clearTimeout(this.#timer)
  }

  #schedule(): void {
    if (this.#isClosed) return
    this.#timer = setTimeout(() => void this.#poll(), this.#options.pollMs ?? POLL_MS).unref()
  }

  async #poll(): Promise<void> {
    const found = await this.#read()
    if (typeof found !== 'string') this.#apply(found)
    else if (found === this.#lastProblem) this.#logRefusal(found)
    this.#lastProblem = typeof found === 'string' ? found : undefined
    this.#warnOfEnd()
    this.#schedule()
  }

  /** The current content of the files, or why it cannot be used. */
  async #read(): Promise<CertifiedKey | string> {
    try {
      const texts = await readTexts(this.#files)
      if (this.#isServed(texts)) return this.#current
      const found = checkTexts(this.#files, texts)
      const nowMs = this.#options.clock.nowMs()
      if (found.startsAtMs > nowMs)
        return `${this.#files.cert} is valid from ${momentOf(found.startsAtMs)}, and will be used from then on.`
      if (found.leafEndsAtMs > nowMs) return found
      return `${this.#files.cert} expired on ${dayOf(found.leafEndsAtMs)}.`
    } catch (error) {
      return error instanceof Error ? error.message : String(error)
    }
  }

  #isServed({ cert, key }: PemTexts): boolean {
    return cert === this.#current.cert && key === this.#current.key
  }

  #apply(found: CertifiedKey): boolean {
    this.#reported = undefined
    if (this.#isClosed || this.#isServed(found)) return false
    this.#current = found
    for (const use of this.#users) use(found)
    this.#warnedAtMs = Number.NEGATIVE_INFINITY
    this.#options.log.info({ expiresAt: dayOf(found.expiresAtMs) }, 'the certificate was reloaded')
    return true
  }

  /** Logs each reason once. */
  #logRefusal(reason: string): void {
    if (reason === this.#reported) return
    this.#reported = reason
    this.#options.log.error({ reason }, 'the certificate was refused; the previous certificate stays in use')
  }

  #warnOfEnd(): void {
    const { clock, log } = this.#options
    const nowMs = clock.nowMs()
    const { expiresAtMs, startsAtMs } = this.#current
    const isValid = startsAtMs <= nowMs && expiresAtMs - nowMs > SOON_MS
    if (isValid || nowMs - this.#warnedAtMs < WARN_EVERY_MS) return
    this.#warnedAtMs = nowMs
    const { message, advice } = judgeCertificate(this.#files, this.#current, nowMs)
    if (expiresAtMs <= nowMs) log.error({ advice }, message)
    else log.warn({ advice }, message)
  }
}

const RENEW = 'Renew it: a running server reads the files again when they change.'
const OTHERS = 0o007

/** Checks for `collet doctor` whether the certificate can be served, for how long, and whether its key is private. */
export async function examineCertificate(files: TlsFiles | undefined, nowMs: number) {
  if (files === undefined) return []
  try {
    const check = judgeCertificate(files, await readCertifiedKey(files), nowMs)
    const mode = (await stat(files.key)).mode & 0o777
    if ((mode & OTHERS) === 0) return [check]
    const message = `${files.key} can be read by every user of this machine (mode ${mode.toString(8)})`
    return [check, certificateCheck('warn', message, `Run: chmod 600 ${files.key}`)]
  } catch (error) {
    if (!(error instanceof StartRefused)) throw error
    return [certificateCheck('fail', error.message, 'Correct server.tls in the config.')]
  }
}

function certificateCheck(level: 'ok' | 'warn' | 'fail', message: string, advice?: string) {
  return defined({ subject: 'tls', level, message, advice })
}

function judgeCertificate({ cert }: TlsFiles, { startsAtMs, expiresAtMs }: CertifiedKey, nowMs: number) {
  const end = dayOf(expiresAtMs)
  if (expiresAtMs <= nowMs)
    return certificateCheck('fail', `${cert} expired on ${end}; clients refuse it`, RENEW)
  if (startsAtMs > nowMs) {
    const message = `${cert} is not valid before ${momentOf(startsAtMs)}; clients refuse it until then`
    const advice = 'Check the clock of this machine, or use the previous certificate.'
    return certificateCheck('warn', message, advice)
  }
  return expiresAtMs - nowMs <= SOON_MS
    ? certificateCheck('warn', `${cert} expires on ${end}`, RENEW)
    : certificateCheck('ok', `${cert} is valid until ${end}`)
}

function dayOf(ms: number): string {
  return momentOf(ms).slice(0, 10)
}

function momentOf(ms: number): string {
  return new Date(ms).toISOString()
}

/** Reads both files and checks that they match. Throws `StartRefused` with what to do. */
export async function readCertifiedKey(files: TlsFiles): Promise<CertifiedKey> {
  return checkTexts(files, await readTexts(files))
}

async function readTexts({ cert, key }: TlsFiles): Promise<PemTexts> {
  return { cert: await readText('cert', cert), key: await readText('key', key) }
}

function checkTexts(files: TlsFiles, { cert, key }: PemTexts): CertifiedKey {
  const chain = readChain(files, cert)
  checkPair(files, chain, readPrivateKey(files, key))
  const { createSecureContext } = process.getBuiltinModule('node:tls')
  try {
    createSecureContext({ cert, key })
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error)
    throw refusal('cert', files.cert, `cannot be served: ${reason}.`)
  }
  return {
    cert,
    key,
    startsAtMs: Math.max(...chain.map(({ validFromDate }) => validFromDate.getTime())),
    leafEndsAtMs: chain[0]?.validToDate.getTime() ?? 0,
    expiresAtMs: Math.min(...chain.map(({ validToDate }) => validToDate.getTime())),
  }
}

type Part = keyof TlsFiles

function refusal(part: Part, file: string, problem: string): StartRefused {
  return new StartRefused(`server.tls.${part}: ${file} ${problem}`)
}

const READ_PROBLEMS: Readonly<Record<string, string>> = {
  ENOENT: 'does not exist. Write the path of a PEM file, relative to the config file.',
  EACCES:
    'cannot be read by the user who runs Collet. Give access to that user or its group, also to the folders above: chown, chmod 640.',
  EISDIR: 'is a folder. Write the path of the file in it, for example fullchain.pem or privkey.pem.',
  ENOTDIR: 'is below a file, not a folder. Correct the path.',
}

async function readText(part: Part, file: string): Promise<string> {
  try {
    return await readFile(file, 'latin1')
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? error.code : undefined
    throw refusal(part, file, READ_PROBLEMS[String(code)] ?? `cannot be read (${String(code ?? error)}).`)
  }
}

const CERTIFICATE = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g
const KEY = /-----BEGIN ([A-Z]+ )?PRIVATE KEY-----/

function readChain({ cert: file }: TlsFiles, text: string): readonly X509Certificate[] {
  const blocks = text.match(CERTIFICATE) ?? []
  if (blocks.length === 0) {
    const problem = KEY.test(text)
      ? 'contains a key, not a certificate. Are the two paths mixed up?'
      : `contains no certificate in PEM format (-----BEGIN CERTIFICATE-----). Convert a DER file with: openssl x509 -inform der -in ${file} -out cert.pem`
    throw refusal('cert', file, problem)
  }
  return blocks.map((block, index) => {
    try {
      return new X509Certificate(block)
    } catch {
      throw refusal(
        'cert',
        file,
        `contains a certificate that cannot be read: number ${index + 1} in the file.`,
      )
    }
  })
}

function readPrivateKey({ key: file }: TlsFiles, text: string): KeyObject {
  if (/BEGIN ENCRYPTED PRIVATE KEY|Proc-Type: 4,ENCRYPTED/.test(text)) {
    const problem = `is encrypted, and a server that starts unattended cannot ask for the passphrase. Write it unencrypted, readable only by its user: openssl pkey -in ${file} -out key.pem`
    throw refusal('key', file, problem)
  }
  if (!KEY.test(text)) {
    const problem = text.includes('BEGIN CERTIFICATE')
      ? 'contains a certificate, not a key. Are the two paths mixed up?'
      : `contains no key in PEM format (-----BEGIN PRIVATE KEY-----). Convert a DER file with: openssl pkey -inform der -in ${file} -out key.pem`
    throw refusal('key', file, problem)
  }
  try {
    return createPrivateKey(text)
  } catch {
    throw refusal('key', file, 'contains a key that cannot be read. Is the file complete?')
  }
}

/** The server's own certificate must come first, followed by intermediate certificates. */
function checkPair({ cert, key }: TlsFiles, chain: readonly X509Certificate[], privateKey: KeyObject): void {
  const own = chain.findIndex((certificate) => certificate.checkPrivateKey(privateKey))
  if (own === 0) return
  if (own > 0)
    throw refusal('cert', cert, "has the server's own certificate after another one. It must come first.")
  throw refusal('key', key, `is not the key of ${cert}. Name the two files that were made together.`)
}
