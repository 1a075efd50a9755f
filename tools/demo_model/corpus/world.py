"""Facts about the world, as tables."""

# country, capital, continent, language or None, currency or None
COUNTRIES = [row.split("|") for row in """\
France|Paris|Europe|French|euro
Italy|Rome|Europe|Italian|euro
Spain|Madrid|Europe|Spanish|euro
Portugal|Lisbon|Europe|Portuguese|euro
Germany|Berlin|Europe|German|euro
Austria|Vienna|Europe|German|euro
Switzerland|Bern|Europe||Swiss franc
Belgium|Brussels|Europe||euro
the Netherlands|Amsterdam|Europe|Dutch|euro
Denmark|Copenhagen|Europe|Danish|Danish krone
Norway|Oslo|Europe|Norwegian|Norwegian krone
Sweden|Stockholm|Europe|Swedish|Swedish krona
Finland|Helsinki|Europe|Finnish|euro
Iceland|Reykjavik|Europe|Icelandic|Icelandic krona
Ireland|Dublin|Europe|English|euro
the United Kingdom|London|Europe|English|pound
England|London|Europe|English|pound
Scotland|Edinburgh|Europe|English|pound
Wales|Cardiff|Europe||pound
Poland|Warsaw|Europe|Polish|zloty
the Czech Republic|Prague|Europe|Czech|Czech koruna
Slovakia|Bratislava|Europe|Slovak|euro
Hungary|Budapest|Europe|Hungarian|forint
Romania|Bucharest|Europe|Romanian|leu
Bulgaria|Sofia|Europe|Bulgarian|
Greece|Athens|Europe|Greek|euro
Croatia|Zagreb|Europe|Croatian|euro
Serbia|Belgrade|Europe|Serbian|
Slovenia|Ljubljana|Europe|Slovenian|euro
Ukraine|Kyiv|Europe|Ukrainian|hryvnia
Estonia|Tallinn|Europe|Estonian|euro
Latvia|Riga|Europe|Latvian|euro
Lithuania|Vilnius|Europe|Lithuanian|euro
Russia|Moscow|Europe and Asia|Russian|rouble
Turkey|Ankara|Europe and Asia|Turkish|lira
Egypt|Cairo|Africa|Arabic|Egyptian pound
Morocco|Rabat|Africa|Arabic|
Algeria|Algiers|Africa|Arabic|
Tunisia|Tunis|Africa|Arabic|
Kenya|Nairobi|Africa||Kenyan shilling
Ethiopia|Addis Ababa|Africa||
Nigeria|Abuja|Africa|English|naira
Ghana|Accra|Africa|English|
Senegal|Dakar|Africa|French|
Uganda|Kampala|Africa||
Madagascar|Antananarivo|Africa||
Namibia|Windhoek|Africa|English|
China|Beijing|Asia|Chinese|yuan
Japan|Tokyo|Asia|Japanese|yen
South Korea|Seoul|Asia|Korean|won
India|New Delhi|Asia||rupee
Pakistan|Islamabad|Asia||
Nepal|Kathmandu|Asia|Nepali|
Thailand|Bangkok|Asia|Thai|baht
Vietnam|Hanoi|Asia|Vietnamese|dong
Indonesia|Jakarta|Asia|Indonesian|rupiah
the Philippines|Manila|Asia||peso
Malaysia|Kuala Lumpur|Asia|Malay|
Mongolia|Ulaanbaatar|Asia|Mongolian|
Iran|Tehran|Asia|Persian|
Iraq|Baghdad|Asia|Arabic|
Saudi Arabia|Riyadh|Asia|Arabic|
Jordan|Amman|Asia|Arabic|
Lebanon|Beirut|Asia|Arabic|
Canada|Ottawa|North America||Canadian dollar
the United States|Washington, D.C.|North America|English|dollar
Mexico|Mexico City|North America|Spanish|peso
Cuba|Havana|North America|Spanish|
Jamaica|Kingston|North America|English|
Costa Rica|San José|North America|Spanish|
Brazil|Brasília|South America|Portuguese|real
Argentina|Buenos Aires|South America|Spanish|peso
Chile|Santiago|South America|Spanish|peso
Peru|Lima|South America|Spanish|sol
Colombia|Bogotá|South America|Spanish|peso
Ecuador|Quito|South America|Spanish|
Uruguay|Montevideo|South America|Spanish|
Venezuela|Caracas|South America|Spanish|
Australia|Canberra|Oceania|English|Australian dollar
New Zealand|Wellington|Oceania|English|New Zealand dollar
Fiji|Suva|Oceania||""".splitlines()]

# animal, plural, kind, legs, sound verb or "", young or "", food, home, a fact
ANIMALS = [row.split("|") for row in """\
cow|cows|mammal|4|moo|calf|grass|on farms|Cows give us milk.
horse|horses|mammal|4|neigh|foal|grass and hay|in stables and on meadows|\
Horses can sleep standing up.
sheep|sheep|mammal|4|baa|lamb|grass|on meadows|\
Sheep give us wool.
goat|goats|mammal|4|bleat|kid|leaves and grass|on farms and in mountains|\
Goats are very good climbers.
pig|pigs|mammal|4|oink|piglet|roots, grain and vegetables|on farms|\
Pigs roll in mud to stay cool.
dog|dogs|mammal|4|bark|puppy|meat and dog food|with people|\
Dogs have a very good nose.
cat|cats|mammal|4|meow|kitten|mice and cat food|with people|\
Cats can see well in the dark.
mouse|mice|mammal|4|squeak|pup|seeds and grain|in fields and houses|\
Mice have long tails and big ears.
rabbit|rabbits|mammal|4||kit|grass, leaves and carrots|in burrows under the ground|\
Rabbits have long ears and strong back legs.
fox|foxes|mammal|4|bark|cub|mice, birds and berries|in forests and fields|\
Foxes have a bushy tail.
wolf|wolves|mammal|4|howl|pup|deer and other animals|in forests|\
Wolves live together in packs.
bear|bears|mammal|4|growl|cub|berries, fish and honey|in forests and mountains|\
Many bears sleep through the winter.
lion|lions|mammal|4|roar|cub|meat|on the plains of Africa|\
Male lions have a mane.
tiger|tigers|mammal|4|roar|cub|meat|in the forests of Asia|\
Tigers have black stripes.
elephant|elephants|mammal|4|trumpet|calf|grass, leaves and fruit|in Africa and Asia|\
Elephants are the largest animals on land.
giraffe|giraffes|mammal|4||calf|leaves|on the plains of Africa|\
Giraffes are the tallest animals in the world.
zebra|zebras|mammal|4||foal|grass|on the plains of Africa|\
Zebras have black and white stripes.
monkey|monkeys|mammal|4|chatter|infant|fruit, leaves and insects|in trees|\
Monkeys climb very well.
kangaroo|kangaroos|mammal|4||joey|grass|in Australia|\
Kangaroos carry their young in a pouch.
koala|koalas|mammal|4||joey|eucalyptus leaves|in trees in Australia|\
Koalas sleep most of the day.
squirrel|squirrels|mammal|4||kit|nuts and seeds|in trees|\
Squirrels hide nuts for the winter.
hedgehog|hedgehogs|mammal|4||hoglet|insects and worms|in gardens and forests|\
Hedgehogs roll into a ball when they are afraid.
deer|deer|mammal|4||fawn|grass and leaves|in forests|\
Male deer have antlers.
bat|bats|mammal|2|squeak|pup|insects and fruit|in caves and old buildings|\
Bats are the only mammals that can really fly.
whale|whales|mammal|0|sing|calf|tiny sea animals and fish|in the sea|\
The blue whale is the largest animal in the world.
dolphin|dolphins|mammal|0|click|calf|fish|in the sea|\
Dolphins are clever and like to play.
seal|seals|mammal|0|bark|pup|fish|in cold seas|\
Seals have a thick layer of fat that keeps them warm.
camel|camels|mammal|4||calf|dry plants|in deserts|\
Camels store fat in their humps.
chicken|chickens|bird|2|cluck|chick|seeds and worms|on farms|\
Chickens lay eggs.
duck|ducks|bird|2|quack|duckling|water plants and insects|on lakes and rivers|\
Ducks have webbed feet.
goose|geese|bird|2|honk|gosling|grass|on meadows and lakes|\
Wild geese fly south in the autumn.
owl|owls|bird|2|hoot|owlet|mice|in forests|\
Owls hunt at night.
eagle|eagles|bird|2|screech|eaglet|fish and small animals|in mountains|\
Eagles can see very far.
penguin|penguins|bird|2||chick|fish|in the cold south|\
Penguins cannot fly, but they swim very well.
parrot|parrots|bird|2|squawk|chick|seeds and fruit|in warm forests|\
Some parrots can copy words.
sparrow|sparrows|bird|2|chirp|chick|seeds|in towns and fields|\
Sparrows are small brown birds.
ostrich|ostriches|bird|2||chick|plants|in Africa|\
Ostriches are the largest birds and cannot fly.
swan|swans|bird|2||cygnet|water plants|on lakes|\
Swans have long white necks.
frog|frogs|amphibian|4|croak|tadpole|insects|near ponds|\
Frogs begin life in water as tadpoles.
snake|snakes|reptile|0|hiss|hatchling|mice and other small animals|in warm places|\
Snakes have no legs.
turtle|turtles|reptile|4||hatchling|plants and small animals|in water and on land|\
Turtles carry a hard shell.
crocodile|crocodiles|reptile|4||hatchling|fish and other animals|in warm rivers|\
Crocodiles have very strong jaws.
lizard|lizards|reptile|4||hatchling|insects|in warm places|\
Lizards like to lie in the sun.
salmon|salmon|fish|0||fry|smaller fish|in rivers and the sea|\
Salmon swim up rivers to lay their eggs.
shark|sharks|fish|0||pup|fish|in the sea|\
Sharks have many rows of teeth.
bee|bees|insect|6|buzz|larva|nectar and pollen|in hives|\
Bees make honey.
ant|ants|insect|6||larva|seeds, insects and sweet things|in nests under the ground|\
Ants can carry many times their own weight.
butterfly|butterflies|insect|6||caterpillar|nectar|on meadows and in gardens|\
Butterflies were caterpillars once.
spider|spiders|arachnid|8||spiderling|insects|in webs|\
Spiders are not insects, because they have eight legs.
snail|snails|mollusc|0||hatchling|leaves|in gardens|\
Snails carry their house on their back.
octopus|octopuses|mollusc|8||hatchling|crabs and small fish|in the sea|\
An octopus has eight arms and three hearts.
crab|crabs|crustacean|10||larva|small sea animals and plants|on beaches and in the sea|\
Crabs walk sideways.""".splitlines()]

CANNOT_FLY = {"penguin", "ostrich", "chicken"}
FLYERS = {"bat", "bee", "butterfly"}
SWIMMERS = {
    "whale",
    "dolphin",
    "seal",
    "salmon",
    "shark",
    "octopus",
    "duck",
    "penguin",
    "swan",
    "crocodile",
    "turtle",
    "frog",
}

# thing, colour
COLOURS = [row.split("|") for row in """\
the sky on a clear day|blue
grass|green
a ripe banana|yellow
snow|white
coal|black
blood|red
an orange|orange
a strawberry|red
a lemon|yellow
milk|white
chocolate|brown
the sea|blue
a fire engine|red
a leaf in summer|green
a frog|green
a flamingo|pink
an elephant|grey
a polar bear|white
a crow|black
a carrot|orange
a tomato|red
a cucumber|green
a violet|purple
a sunflower|yellow
wood|brown
gold|yellow
silver|grey
a pumpkin|orange
the night sky|black
a rain cloud|grey
a cherry|red
a pea|green
salt|white
an aubergine|purple
a pig|pink
an emerald|green
a ruby|red
a sapphire|blue""".splitlines()]

MIXES = [
    ("blue", "yellow", "green"),
    ("red", "yellow", "orange"),
    ("red", "blue", "purple"),
    ("red", "white", "pink"),
    ("black", "white", "grey"),
    ("red", "green", "brown"),
]

DAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
MONTHS = (
    "January February March April May June July August September October November December"
).split()
MONTH_DAYS = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]
SEASONS = ["spring", "summer", "autumn", "winter"]
SEASON_MONTHS = {
    "spring": "March, April and May",
    "summer": "June, July and August",
    "autumn": "September, October and November",
    "winter": "December, January and February",
}
SEASON_FACTS = {
    "spring": "In spring the days become longer, flowers bloom and birds build their nests.",
    "summer": "Summer is the warmest season. The days are long, and many people go swimming.",
    "autumn": "In autumn the leaves turn red and yellow and fall from the trees.",
    "winter": "Winter is the coldest season. The days are short, and in many places it snows.",
}
ORDINALS = (
    "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth"
).split()

# large unit, small unit (plural), how many
UNITS = [
    ("minute", "seconds", "60"),
    ("hour", "minutes", "60"),
    ("day", "hours", "24"),
    ("week", "days", "7"),
    ("year", "months", "12"),
    ("year", "weeks", "52"),
    ("year", "days", "365"),
    ("leap year", "days", "366"),
    ("decade", "years", "10"),
    ("century", "years", "100"),
    ("millennium", "years", "1000"),
    ("metre", "centimetres", "100"),
    ("kilometre", "metres", "1000"),
    ("centimetre", "millimetres", "10"),
    ("metre", "millimetres", "1000"),
    ("kilogram", "grams", "1000"),
    ("tonne", "kilograms", "1000"),
    ("litre", "millilitres", "1000"),
    ("dozen", "pieces", "12"),
    ("foot", "inches", "12"),
    ("yard", "feet", "3"),
    ("hour", "seconds", "3600"),
    ("kilobyte", "bytes", "1000"),
    ("byte", "bits", "8"),
    ("euro", "cents", "100"),
    ("dollar", "cents", "100"),
    ("right angle", "degrees", "90"),
    ("circle", "degrees", "360"),
]

PLANETS = [
    ("Mercury", "Mercury is the smallest planet and the closest to the Sun."),
    ("Venus", "Venus is the hottest planet, because its thick clouds keep the heat in."),
    ("Earth", "Earth is the planet we live on. Most of it is covered by water."),
    ("Mars", "Mars is called the red planet, because its ground is full of rust."),
    ("Jupiter", "Jupiter is the largest planet. It has a great red spot, which is a storm."),
    ("Saturn", "Saturn is known for its bright rings of ice and rock."),
    ("Uranus", "Uranus is a cold planet that lies on its side."),
    ("Neptune", "Neptune is the farthest planet from the Sun. It is cold, dark and windy."),
]

NAMES = (
    "Anna Ben Clara David Emma Felix Grace Henry Ida Jack Kate Leo Mia Noah Olivia Paul "
    "Rosa Sam Tina Tom Lucy Max Nina Oscar Peter Sara Tim Eva Adam Julia Lena Mark Maria "
    "Hugo Alice Bob Carol Daniel Ella Fred Gina Hannah Ian Jane Kim Laura Martin Nora Otto "
    "Pia Robert Sophie Theo Vera Will Zoe Amir Chen Fatima Ravi Yuki Omar Ines Ada Alan "
    "Charlie George James John Lily Luke Mary Nick Rachel Simon Susan"
).split()

LISTS = {
    "fruits": "apple banana pear orange cherry grape strawberry lemon peach plum mango kiwi",
    "vegetables": "carrot potato tomato onion cucumber cabbage pea spinach pumpkin bean",
    "animals": "dog cat horse cow fox bear lion elephant rabbit owl frog whale",
    "birds": "sparrow eagle owl duck parrot penguin swan goose",
    "fish": "salmon shark trout tuna herring carp",
    "insects": "bee ant butterfly beetle fly mosquito",
    "farm animals": "cow horse sheep goat pig chicken duck",
    "pets": "dog cat rabbit hamster parrot goldfish",
    "colours": "red blue green yellow orange purple pink brown black white",
    "trees": "oak pine birch maple willow beech",
    "flowers": "rose tulip daisy lily sunflower violet",
    "planets": "Mercury Venus Earth Mars Jupiter Saturn Uranus Neptune",
    "musical instruments": "piano guitar violin flute drum trumpet",
    "sports": "football tennis swimming basketball running hockey",
    "tools": "hammer saw screwdriver wrench drill shovel",
    "clothes": "shirt hat coat sock shoe dress scarf",
    "drinks": "water milk tea coffee juice lemonade",
    "metals": "iron gold silver copper tin lead",
    "shapes": "circle square triangle rectangle star oval",
    "kitchen tools": "knife fork spoon pan pot bowl",
    "pieces of furniture": "table chair bed sofa desk shelf",
    "vehicles": "car bus train bicycle boat aeroplane",
    "jobs": "teacher doctor baker farmer painter pilot",
    "body parts": "hand foot arm leg nose ear",
    "countries": "France Italy Japan Brazil Egypt Canada India Norway",
    "European countries": "France Italy Spain Germany Poland Sweden Greece Portugal",
    "African countries": "Egypt Kenya Nigeria Morocco Ghana Ethiopia",
    "Asian countries": "China Japan India Thailand Vietnam Nepal",
    "capitals": "Paris Rome Madrid Berlin Tokyo Cairo Ottawa Oslo",
    "languages": "English French Spanish German Italian Japanese",
    "school subjects": "maths music history art science sport",
    "seasons": "spring summer autumn winter",
    "oceans": "Pacific Atlantic Indian Arctic Southern",
    "continents": "Africa Asia Europe Australia Antarctica",
    "things in a kitchen": "stove sink fridge table oven cupboard",
    "things in a forest": "tree moss mushroom squirrel path leaf",
}
