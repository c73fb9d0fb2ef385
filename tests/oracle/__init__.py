"""The oracle: random stays against the simulated doors, judged by the rules of docs/who-gets-in.md.

| module | what it is |
|---|---|
| `model` | who must and who must not get in, at any moment; knows events, actions and the clock |
| `facts` | what the model takes for known: the hotel, its stays, what guests hold |
| `lives` | random lives: lists of steps, as data |
| `houses` | the houses that lives are played in |
| `excuses` | when a wrong door is excused by what is told |
| `player` | plays a life on the stage and asks the doors after every step |
| `shrink` | makes a life that found something as short as it can be |
| `mutations` | faults planted in the product, each of which must be found |
| `draw_seeds` | `make oracle` |

One rule: a life is replayed from its data alone; the seed only writes it.
"""
