import type { ReactNode } from 'react'

/*
 * The texts of the page of what models see. Its modules use them, and nothing else does.
 */

type Text = string | number

export const WORDS = {
  toolsUnit: 'tools',
  tokensUnit: 'tokens',
  theWholeList: 'the whole list',
  searchUnit: 'search',
  switchExplained: (other: string) =>
    `A client that gives all tools to its model sends their names, descriptions and parameters with each request. To switch to ${other}, change the config:`,
  whatModelsSee: 'What models see',
  breadcrumb: 'Breadcrumb',
  tools: 'Tools',
  toolset: 'Toolset',
  allTools: 'All tools',
  toolset2: (value: Text) => `Toolset ${value}`,
  costs: 'costs',
  costCouldNotBeRead: 'The cost could not be read',
  discovery: 'Discovery',
  toolsListed: 'Tools listed',
  size: 'Size',
  tokens: 'Tokens',
  whatListCosts: 'What the list costs',
  costBothWaysListTools: 'Cost of both ways to list tools',
  wholeList: 'Whole list',
  search: 'Search',
  now: 'now',
  about: (cost: ReactNode) => <>about {cost}</>,
  switch: (other: Text) => `Switch to ${other}`,
  colletConfigJson: 'collet.config.json',
  whatSearchFinds: 'What a search finds',
  searchAsModel: 'Search as a model',
  taskInPlainWordsOr: 'A task in plain words, or the name of a tool',
  searchFailed: 'The search failed',
  answerSearchTools: 'Answer of search_tools',
  tool: 'Tool',
  share: 'Share',
  mostExpensiveTools: 'The most expensive tools',
} as const
