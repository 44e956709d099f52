import { describe, expect, it } from 'vitest'
import { plainName, queryWords, splitWords, stemsOf } from './words.ts'

describe('words of a text', () => {
  it.each([
    ['GetPullRequests2', 'get pull requests 2'],
    ['get_pull-requests.2', 'get pull requests 2'],
    ['parseHTMLFile', 'parse html file'],
    ["the repo's files", 'the repo files'],
    ['größeÄndern', 'größe ändern'],
  ])('%s is split into "%s"', (text, words) => {
    expect(splitWords(text).join(' ')).toBe(words)
  })

  it.each([
    ['create', 'creates', 'created', 'creating', 'creation'],
    ['delete', 'deleting', 'deletion'],
    ['repository', 'repositories'],
    ['install', 'installed', 'installation', 'installations'],
    ['assign', 'assigned', 'assignment'],
    ['deploy', 'deployments', 'deploying'],
    ['organize', 'organization', 'organisation'],
    ['reviewer', 'review', 'reviews', 'reviewing'],
    ['run', 'running', 'runs'],
    ['branch', 'branches'],
  ])('the forms of %s have the same stem', (...forms) => {
    expect(new Set(forms.flatMap((form) => stemsOf(form))).size).toBe(1)
  })

  it('words that say nothing about a tool are left out', () => {
    expect(stemsOf('what is the status of it?')).toEqual(stemsOf('status'))
  })

  it('all spellings of a name are equal', () => {
    const spellings = ['Mail.SendNow', 'mail_send_now', 'MAIL-SENDNOW', 'mail send now']
    expect(new Set(spellings.map(plainName))).toEqual(new Set(['mailsendnow']))
  })

  it('a compound stays one word only if the tools have it', () => {
    const stems = (isKnown: boolean) => queryWords('GitHub', () => isKnown).map(({ stem }) => stem)
    expect(stems(true)).toEqual(['github'])
    expect(stems(false)).toEqual(['git', 'hub'])
  })
})
