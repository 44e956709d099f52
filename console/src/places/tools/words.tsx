import type { ReactNode } from 'react'

/*
 * The texts of the list of tools. Its modules use them, and nothing else does.
 */

type Text = string | number

export const WORDS = {
  unavailable: (since: Text) => `Unavailable${since}`,
  degraded: (since: Text) => `Degraded${since}`,
  changeHeld: (condition: Text) => `Change held · ${condition}`,
  callsAreRejectedUntilChange: 'Calls are rejected until the change is decided.',
  deprecated: 'Deprecated',
  needsProvenUser: 'Needs a proven user',
  noCallerHas: (id: Text) => `No caller has ${id}`,
  setSecret: 'Set a secret',
  connectAgain: (id: Text) => `Connect ${id} again`,
  accessLacksPermission: (id: Text) => `The access to ${id} lacks a permission.`,
  refusedRenewAccess: (id: Text) => `${id} refused to renew access.`,
  connect: (id: Text) => `Connect ${id}`,
  searchTools: 'Search tools',
  searchByNamePurposeOr: 'Search by name, purpose or field',
  filters: 'Filters',
  order: 'Order',
  thisConfig: 'this config',
  source: 'Source',
  tier: 'Tier',
  approval: 'Approval',
  needs: 'Needs',
  health: 'Health',
  somethingMissing: 'something missing',
  account: 'an account',
  secret: 'a secret',
  userId: 'a user id',
  scope: 'a scope',
  changeHeld2: 'change held',
  byName: 'By name',
  bySource: 'By source',
  byTier: 'By tier',
  byCondition: 'By condition',
  mostCalledFirst: 'Most called first',
  bestMatch: 'Best match',
  tools: 'Tools',
  tool: 'tool',
  whatModelsSee: 'What models see',
  addSource: 'Add a source',
  tools2: 'tools',
  toolsCouldNotBeListed: 'The tools could not be listed',
  modelGetsThisListReads: (data: ReactNode) => (
    <>A model that gets this list reads about {data} tokens with it.</>
  ),
  noToolMatches: (words: Text) => `No tool matches ${words}`,
  clearSearchFilters: 'Clear search and filters',
  namesPurposeTagsFieldsAre: 'Names, purpose, tags and fields are searched; every word must be found.',
  noToolsYet: 'No tools yet',
  toolsAppearHereAsSoon: (url: ReactNode) => (
    <>
      Tools appear here as soon as a source is added, or a tool of your own is in the config. In a terminal:{' '}
      {url}
    </>
  ),
  tool2: 'Tool',
  egress: 'Egress',
  condition: 'Condition',
  version: 'Version',
  toolsYouMaySee: 'Tools you may see',
  onlyFor: (tool: ReactNode) => <>only for {tool} · </>,
  approvalRuleDecidesWhichCalls: 'An approval rule decides which calls need approval.',
  version2: (id: ReactNode) => <>Version of {id}: </>,
} as const
