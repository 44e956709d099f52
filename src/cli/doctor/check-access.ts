import { checkExposure, type Exposure, needsCredential, StartRefused } from '#server/safety'
import { type Check, fail, ok, warn } from './check.ts'

const REFUSED =
  'collet serve refuses to start like this. Set auth.apiKeys or auth.jwt; collet keys generate makes a strong key.'

/** What `serve` would refuse or warn about: who could call the tools, and how strong the credentials are (rule 28). */
export function checkAccess(exposure: Exposure): readonly Check[] {
  try {
    const warnings = checkExposure(exposure, false)
    if (warnings.length === 0) return [ok('access', describe(exposure))]
    return warnings.map(({ text, advice }) => warn('access', text, advice))
  } catch (error) {
    if (!(error instanceof StartRefused)) throw error
    return error.message.split('\n').map((text) => fail('access', text, REFUSED))
  }
}

function describe({ auth, server }: Exposure): string {
  return needsCredential(auth)
    ? `Credentials are needed and strong (${server.host})`
    : `No credentials: everybody on this machine may call (${server.host})`
}
